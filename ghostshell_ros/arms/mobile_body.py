# SPDX-License-Identifier: Apache-2.0
"""Give a robot with arms on a base that drives its body: it goes with its arms drawn in."""

from ghostshell_ros.arms.body import ArmBody
from skill_kernel import SkillReturn
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import Action, Senses, StopEvent, map_pose, outcome


class MobileArmBody(ArmBody):
    """Do what a robot with arms can do that also drives. Whoever calls it sees to it that it stands while its arms work."""

    def __init__(
        self,
        *,
        robot: RobotConfig,
        move_joints: Action,
        navigate_to: Action,
        senses: Senses,
        speak: Action | None = None,
        ask_human: Action | None = None,
        moveit: bool = False,
    ) -> None:
        """Take the body's parts. Raises RobotConfigError when its arms cannot be used."""
        super().__init__(robot=robot, move_joints=move_joints, senses=senses, speak=speak, ask_human=ask_human, moveit=moveit)
        self._navigate = navigate_to

    def go_to(self, point: str, stop: StopEvent) -> SkillReturn:
        """Draw the arms in, with what is held, and go to a point of the scenery."""
        drawn = self.draw_in(stop)
        if not drawn.ok:
            return drawn
        result = self._navigate(pose=map_pose(self.scenery.points[point]), stop=stop)
        return outcome(result, f"is {point}" if result.ok else f"did not come to {point}")
