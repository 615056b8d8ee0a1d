# SPDX-License-Identifier: Apache-2.0
"""Node `sim`: simulate robots in MuJoCo in real time behind the standard topics that real ones have."""

import math
import os
import threading
import time
from typing import Any

from builtin_interfaces.msg import Time
from rclpy.publisher import Publisher
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image

from ghostshell_ros.nodes.sim.sim_robot import SimRobotPorts
from ghostshell_ros.nodes.sim.sim_sensors import SimObjects, SimThings, Simulated
from ghostshell_ros.runtime.node import Beat, Health, Level, NodeStartError, RuntimeNode
from ghostshell_ros.sim.pictures import PictureThread, Shot
from ghostshell_ros.sim.robot import SimWorldError
from ghostshell_ros.sim.sight import Sight
from ghostshell_ros.sim.world import Image as Pixels
from ghostshell_ros.sim.world import SimWorld, State
from ghostshell_ros.wire.images import to_message
from ghostshell_ros.wire.qos import IMAGES, MEASUREMENTS
from ghostshell_ros.wire.values import time_message
from skill_kernel.robot import RobotConfig

STEP_S = 0.01
REST_STEP_S = 0.1
"""Slice by which physics advances, several steps of the model; a longer one while the robot stands still, cut by a command."""
LATEST_S = 0.5
"""Lag from which on the simulator gives lost time up instead of racing after it."""
BREATH_S = 0.0005
"""Time a racing simulator leaves the world to who waits for it: silent sensors would halt the robot."""
STILL = 0.02
REST_S = 1.0
"""Speed [rad/s, m/s] below which joints and body have to stay for `REST_S` until the robot counts as standing still."""
PACE_S = 5.0
"""Time between two looks at the real-time factor; below `SLOW` of the wished one it is a warning."""
SLOW = 0.95


class Sim(RuntimeNode):
    """Step the robots' MuJoCo models, in one world, against steady time on a thread of its own.

    One `robot` has its topics in the node's namespace. Several, `robots`, have theirs in a namespace of their own each, by
    their names; what belongs to none of them (the film, the ground truth) is in the node's.

    All are measured at `rate_hz`, or at `rest_rate_hz` while they stand still; images are drawn only while somebody
    subscribes to them. While a robot's gate has halted it, no command moves it.

    A robot without legs obeys `joint_command`; a servo holds its last target. A base is walked by the gait controller, or
    rolls: 0.25 s without `cmd_vel_gated` is a stance, and a posture that is not renewed for 0.25 s freezes half way, as by
    "hold".

    For a robot with arms, `things` says what its cameras see now (vision_msgs/Detection3DArray).

    For tests and films: `ground_truth/<object>`; `~/reset` and `~/arrange` put the world back to its start and what
    `arrangement` names where it says; in the building `world/person` and `world/block_door` move things.
    """

    sends_images = True

    def __init__(self) -> None:
        super().__init__("sim")
        robot = self.declare("robot", "coco", "robot's name in config/robots, or a YAML file's path")
        several = self.declare(
            "robots",
            "",
            "instead of it, several in one world: 'atlas hebe', where a name is the namespace, or 'hebe=file.yaml'",
        )
        named = dict(self._named(entry) for entry in several.split()) or {"": robot}
        configs = {name: RobotConfig.load(file) for name, file in named.items()}
        self._rtf = self.declare("rtf", 1.0, "simulated seconds a second of real time [1]", 0.01, 20.0)
        rate = self.declare("rate_hz", 50.0, "joint states, IMU and odometry a second [Hz]", 1.0, 200.0)
        scan_rate = self.declare("scan_rate_hz", 10.0, "turns of a base's lidar a second [Hz]", 1.0, 40.0)
        charge = 0.01 * self.declare("battery_percent", 100.0, "charge at the start [%]", 0.0, 100.0)
        things_rate = self.declare("things_rate_hz", 4.0, "what the cameras see of things a second [Hz]", 0.1, 30.0)
        truth_rate = self.declare("ground_truth_rate_hz", 10.0, "true poses of the objects a second [Hz]", 0.1, 100.0)
        surroundings = self.declare("world", "desk", "what stands around it: a name in ghostshell_ros/sim/worlds, or a path")
        clock = self.declare("publish_clock", False, "publish simulated time on /clock")
        viewer = self.declare("viewer", False, "open MuJoCo's viewer where there is a display")
        models = {name: config.model_path() for name, config in configs.items()}
        try:
            self._world = SimWorld(models, world=surroundings)
            for name, config in configs.items():
                if config.arms:
                    self._world.robots[name].home = {joint: limits.rest for joint, limits in config.joints.items()}
            start = self.declare("start", "", "keyframe of the model to start from, empty = the model's own start")
            self._world.reset(start)
        except SimWorldError as error:
            raise NodeStartError(str(error)) from error
        self._lock = threading.Lock()

        self._simulated_time = clock
        self._clock_messages = self.create_publisher(Clock, "/clock", MEASUREMENTS) if clock else None
        prefix = self.declare("frame_prefix", "auto", "before each frame's name; auto: the robot's namespace and a slash")
        if prefix == "auto":
            prefix = f"{self.get_namespace()}/".lstrip("/")
        common = self.declare("camera", "head_camera", "name of the camera in the robot's model")
        self._robots, shots = [], []
        try:
            for name, config in configs.items():
                sim = Simulated(
                    self,
                    self._world,
                    self._world.robots[name],
                    self._lock,
                    self._stamp,
                    f"{name}/" if name else prefix,
                    f"/{name}/" if name else "",
                    self._stir,
                )
                own = [one for one in sim.robot.cameras() if not one.startswith("film")]
                usual = common if common in own else next(iter(own), common)
                camera = self.declare(f"{name}.camera", usual, "the same of this robot") if name else common
                eye = f"{sim.frame_prefix}camera_optical_frame"
                shot = self._shot("camera", sim.robot.prefix + camera, 3.0, (320, 240), f"{sim.namespace}camera/image_raw", eye)
                self._robots.append(SimRobotPorts(sim, config, camera, scan_rate, charge, self._show_face))
                if config.arms:
                    SimThings(sim, Sight(self._world, sim.robot, *shot.size), things_rate)
                shots.append(shot)
            film = self.declare("film", "film", "name of a camera in the robot's model, or in the world of several")
            shots.append(self._shot("film", film, 8.0, (480, 360), "film/image_raw", f"{prefix}film"))
            frame = f"{prefix}map"
            self._objects = SimObjects(self, self._world, self._lock, self._stamp, frame, truth_rate, start)
        except SimWorldError as error:
            raise NodeStartError(f"world '{surroundings}': {error}") from error
        self._pictures = PictureThread(models, self._snapshot, shots, self._no_pictures, surroundings)
        rest_rate = self.declare("rest_rate_hz", 10.0, "the same while the robot stands still [Hz]", 1.0, 200.0)
        self._moved_s = self.steady_now()
        self._measuring = Beat(self, 1.0 / rate, 1.0 / rest_rate, lambda: not self._rests(), self._publish)
        self._pace, self._pace_from = self._rtf, (self.steady_now(), self._world.time)
        self.steady_timer(PACE_S, self._take_pace)
        self._viewer = self._open_viewer() if viewer else None
        self._ending, self._stirred = threading.Event(), threading.Event()
        self._physics = threading.Thread(target=self.guarded(self._step), name="physics", daemon=True)
        self._pictures.start()
        self._pace_from = (self.steady_now(), self._world.time)
        self._physics.start()

    @staticmethod
    def _named(entry: str) -> tuple[str, str]:
        """Return name and file of one of several robots."""
        name, _, file = entry.partition("=")
        return name, file or name

    def _shot(self, name: str, camera: str, rate: float, size: tuple[int, int], topic: str, frame: str) -> Shot[Time]:
        """Publish a camera's pictures on a topic, as often and large as the parameters say that begin with `name`; those of
        a robot's camera come with camera_info."""
        if camera not in self._world.cameras():
            known = ", ".join(self._world.cameras())
            raise NodeStartError(f"parameter {name}: the model has no camera '{camera}'; use one of {known}")
        if not self.has_parameter(f"{name}_rate_hz"):
            self.declare(f"{name}_rate_hz", rate, "its images a second [Hz]", 0.1, 60.0)
            self.declare(f"{name}_width", size[0], "width of its image [px]", 16, 1280)
            self.declare(f"{name}_height", size[1], "height of its image [px]", 16, 960)
        rate, width, height = (self.get_parameter(f"{name}_{what}").value for what in ("rate_hz", "width", "height"))
        publishers: list[Publisher] = [self.create_publisher(Image, topic, IMAGES)]
        info = self._camera_info(camera, width, height)
        if name == "camera":
            publishers.append(self.create_publisher(CameraInfo, topic.replace("image_raw", "camera_info"), IMAGES))

        def deliver(pixels: Pixels, stamp: Time) -> None:
            image = to_message(pixels, stamp, frame)
            info.header = image.header
            for publisher, message in zip(publishers, (image, info), strict=False):
                publisher.publish(message)

        def wanted() -> bool:
            return any(publisher.get_subscription_count() > 0 for publisher in publishers)

        return Shot(camera, (width, height), 1.0 / rate, wanted, deliver)

    def _camera_info(self, camera: str, width: int, height: int) -> CameraInfo:
        focal = height / 2 / math.tan(math.radians(float(self._world.model.camera(camera).fovy[0])) / 2)
        info = CameraInfo(width=width, height=height, distortion_model="plumb_bob", d=[0.0] * 5)
        info.k = [focal, 0.0, width / 2, 0.0, focal, height / 2, 0.0, 0.0, 1.0]
        info.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
        info.p = [focal, 0.0, width / 2, 0.0, 0.0, focal, height / 2, 0.0, 0.0, 0.0, 1.0, 0.0]
        return info

    def _step(self) -> None:
        """Let simulated time follow steady time, whatever the executor does. On the physics thread.

        Should physics fail, the robot falls silent: the gate halts for that, and `health` says why.
        """
        due = time.monotonic()
        while not self._ending.is_set():
            rests = self._rests()
            slice_s = REST_STEP_S if rests else STEP_S
            due += slice_s / self._rtf
            wait = due - time.monotonic()
            if wait > 0 and self._stirred.wait(wait):
                self._stirred.clear()
                left_s, due = due - time.monotonic(), time.monotonic()
                slice_s = max(STEP_S, slice_s - max(0.0, left_s) * self._rtf)
            elif wait <= 0:
                if wait < -LATEST_S:
                    due = time.monotonic()
                self._ending.wait(BREATH_S)
            with self._lock:
                self._world.advance(slice_s)
                begins = rests and self._moves()
            if begins:
                self.call_soon(self._stir)

    def _stir(self) -> None:
        """Let physics and sensors go at their full rates, because a robot moves or is told to. On the executor's thread."""
        rested, self._moved_s = self._rests(), self.steady_now()
        if rested:
            self._stirred.set()
            self._measuring.now()

    def _moves(self) -> bool:
        """Return whether a robot moves now. A clock that others go by moves always."""
        return self._simulated_time or any(robot.speed() > STILL for robot in self._world.robots.values())

    def _rests(self) -> bool:
        """Return whether all robots have stood still for REST_S."""
        return self.steady_now() - self._moved_s > REST_S

    def _take_pace(self) -> None:
        since, simulated = self._pace_from
        self._pace_from = (self.steady_now(), self._world.time)
        self._pace = (self._pace_from[1] - simulated) / max(self._pace_from[0] - since, 1e-9)
        if self._pace < SLOW * self._rtf:
            self.get_logger().warning(
                f"the simulation falls behind: {self._pace:.2f} s a second instead of {self._rtf:g}; the machine is too busy"
            )

    def health(self) -> Health:
        if not self._physics.is_alive():
            return Health("physics ended; the log says why", Level.ERROR)
        values = {"real-time factor": round(self._pace, 2)}
        return Health("behind", Level.WARN, values) if self._pace < SLOW * self._rtf else Health("running", values=values)

    def _show_face(self, robot: str, pixels: Pixels) -> None:
        self._pictures.set_face(pixels, robot)
        if self._viewer is not None:
            with self._lock:
                self._world.set_face(pixels, robot)
            self._viewer.update_texture(self._world.robots[robot].face_texture)

    def _stamp(self) -> Time:
        if not self._simulated_time:
            return self.get_clock().now().to_msg()
        return time_message(self._world.time)

    def _publish(self) -> None:
        if not self._physics.is_alive():
            return
        if self._moves():
            self._moved_s = self.steady_now()
        if self._clock_messages is not None:
            with self._lock:
                self._clock_messages.publish(Clock(clock=self._stamp()))
        for robot in self._robots:
            robot.publish()
        if self._viewer is not None and self._viewer.is_running():
            with self._lock:
                self._viewer.sync()

    def _snapshot(self) -> tuple[State, State, Time]:
        with self._lock:
            return self._world.state(), self._world.appearance(), self._stamp()

    def _no_pictures(self, text: str) -> None:
        self.get_logger().error(f"no camera images: {text}")

    def _open_viewer(self) -> Any:
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            self.get_logger().warning("viewer is set, but there is no display; going on without it")
            return None
        import mujoco.viewer

        return mujoco.viewer.launch_passive(self._world.model, self._world.data, show_left_ui=False, show_right_ui=False)

    def close(self) -> None:
        self._ending.set()
        self._stirred.set()
        self._physics.join(timeout=2.0)
        self._pictures.close()
        if self._viewer is not None:
            self._viewer.close()
