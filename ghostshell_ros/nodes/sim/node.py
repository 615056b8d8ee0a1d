# SPDX-License-Identifier: Apache-2.0
"""Node `sim`: simulate a robot in MuJoCo in real time behind the standard topics that a real one has."""

import math
import os
import threading
import time
from typing import Any

from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from sensor_msgs.msg import CameraInfo, Image, JointState
from std_msgs.msg import Bool

from ghostshell_ros.nodes.sim.sim_frames import SimFrames
from ghostshell_ros.nodes.sim.sim_sensors import SimBase, SimObjects, SimSensors, Simulated
from ghostshell_ros.runtime.node import Beat, Health, Level, NodeStartError, RuntimeNode
from ghostshell_ros.sim.pictures import PictureThread, Shot
from ghostshell_ros.sim.world import BaseState, SimWorld, SimWorldError, State
from ghostshell_ros.sim.world import Image as Pixels
from ghostshell_ros.wire.images import to_message, to_pixels
from ghostshell_ros.wire.qos import IMAGES, LATCHED, SET_POINTS
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
    """Step the robot's MuJoCo model against steady time on a thread of its own.

    It is measured at `rate_hz`, or at `rest_rate_hz` while it stands still; images are drawn only while somebody subscribes
    to them, those of `film` from a camera that follows it. While the gate has halted the robot, no command moves it.

    A robot without a base obeys `joint_command`; a servo holds its last target. A base is walked by the gait controller:
    0.25 s without `cmd_vel_gated` is a stance, and a posture that is not renewed for 0.25 s freezes half way, as by "hold".

    For tests and films: `ground_truth/<object>`; `~/reset` and `~/arrange` put the world back to its start and what
    `arrangement` names where it says; in the building `world/person` and `world/block_door` move things.
    """

    def __init__(self) -> None:
        super().__init__("sim")
        robot = RobotConfig.load(self.declare("robot", "coco", "robot's name in config/robots, or a YAML file's path"))
        self._rtf = self.declare("rtf", 1.0, "simulated seconds a second of real time [1]", 0.01, 20.0)
        rate = self.declare("rate_hz", 50.0, "joint states, IMU and odometry a second [Hz]", 1.0, 200.0)
        scan_rate = self.declare("scan_rate_hz", 10.0, "turns of a base's lidar a second [Hz]", 1.0, 40.0)
        charge = 0.01 * self.declare("battery_percent", 100.0, "charge at the start [%]", 0.0, 100.0)
        truth_rate = self.declare("ground_truth_rate_hz", 10.0, "true poses of the objects a second [Hz]", 0.1, 100.0)
        surroundings = self.declare("world", "desk", "what stands around the robot: a file's name in ghostshell_ros/sim/worlds")
        clock = self.declare("publish_clock", False, "publish simulated time on /clock")
        viewer = self.declare("viewer", False, "open MuJoCo's viewer where there is a display")
        try:
            self._world = SimWorld(robot.model_path(), world=surroundings)
            start = self.declare("start", "", "keyframe of the model to start from, empty = the model's own start")
            self._world.reset(start)
        except SimWorldError as error:
            raise NodeStartError(str(error)) from error
        self._lock = threading.Lock()

        self._simulated_time = clock
        prefix = self.declare("frame_prefix", "auto", "before each frame's name; auto: the robot's namespace and a slash")
        if prefix == "auto":
            prefix = f"{self.get_namespace()}/".lstrip("/")
        self._halted = False
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        sim = Simulated(self, self._world, self._lock, self._stamp, prefix, lambda: self._halted, self._stir)
        self._sensors = SimSensors(sim, clock=clock)
        shots = [
            self._shot("camera", "head_camera", 3.0, (320, 240), "camera/image_raw", f"{prefix}camera_optical_frame"),
            self._shot("film", "film", 8.0, (480, 360), "film/image_raw", f"{prefix}film"),
        ]
        try:
            self._objects = SimObjects(sim, truth_rate, start)
            self._base = SimBase(sim, scan_rate, charge) if robot.base is not None else None
        except SimWorldError as error:
            raise NodeStartError(f"robot '{robot.name}' in world '{surroundings}': {error}") from error
        if self._base is None:
            self.create_subscription(JointState, "joint_command", self._on_command, SET_POINTS)
        self._frames = SimFrames(sim, robot.model_path().with_suffix(".urdf"), str(self.get_parameter("camera").value))
        self._pictures = PictureThread(robot.model_path(), self._snapshot, shots, self._no_pictures, surroundings)
        if self._world.face_texture is not None:
            self.create_subscription(Image, "face/image_raw", self._on_face_image, LATCHED)
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

    def _shot(self, name: str, camera: str, rate: float, size: tuple[int, int], topic: str, frame: str) -> Shot[Time]:
        """Declare the parameters of a camera and publish its pictures on a topic; the robot's own has camera_info as well."""
        camera = self.declare(name, camera, "name of a camera in the robot's model")
        if camera not in self._world.cameras():
            known = ", ".join(self._world.cameras())
            raise NodeStartError(f"parameter {name}: the model has no camera '{camera}'; use one of {known}")
        rate = self.declare(f"{name}_rate_hz", rate, "its images a second [Hz]", 0.1, 60.0)
        width = self.declare(f"{name}_width", size[0], "width of its image [px]", 16, 1280)
        height = self.declare(f"{name}_height", size[1], "height of its image [px]", 16, 960)
        images = self.create_publisher(Image, topic, IMAGES)
        infos = self.create_publisher(CameraInfo, "camera/camera_info", IMAGES) if name == "camera" else None
        info = self._camera_info(camera, width, height)

        def deliver(pixels: Pixels, stamp: Time) -> None:
            image = to_message(pixels, stamp, frame)
            images.publish(image)
            if infos is not None:
                info.header = image.header
                infos.publish(info)

        def wanted() -> bool:
            return any(publisher is not None and publisher.get_subscription_count() > 0 for publisher in (images, infos))

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
        """Let physics and sensors go at their full rates, because the robot moves or is told to. On the executor's thread."""
        rested, self._moved_s = self._rests(), self.steady_now()
        if rested:
            self._stirred.set()
            self._measuring.now()

    def _moves(self) -> bool:
        """Return whether the robot moves now. A clock that others go by moves always."""
        return self._simulated_time or self._world.speed() > STILL

    def _rests(self) -> bool:
        """Return whether the robot has stood still for REST_S."""
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

    def _on_command(self, message: JointState) -> None:
        """Pass on a command that the gate has checked; one that is wrong nevertheless moves nothing."""
        if self._halted:
            return
        if len(message.name) != len(message.position):
            self._refuse(f"joint_command with {len(message.name)} names and {len(message.position)} positions")
            return
        try:
            with self._lock:
                self._world.set_joint_targets(dict(zip(message.name, message.position, strict=True)))
            self._stir()
        except SimWorldError as error:
            self._refuse(str(error))

    def _on_halted(self, message: Bool) -> None:
        self._halted = message.data

    def _on_face_image(self, message: Image) -> None:
        try:
            pixels = to_pixels(message)
        except ValueError as error:
            self._refuse(f"face/image_raw: {error}")
            return
        self._pictures.set_face(pixels)
        if self._viewer is not None:
            with self._lock:
                self._world.set_face(pixels)
            self._viewer.update_texture(self._world.face_texture)

    def _refuse(self, text: str) -> None:
        self.get_logger().error(f"refused: {text}", throttle_duration_sec=5.0)

    def _stamp(self) -> Time:
        if not self._simulated_time:
            return self.get_clock().now().to_msg()
        return time_message(self._world.time)

    def _publish(self) -> None:
        if not self._physics.is_alive():
            return
        if self._moves():
            self._moved_s = self.steady_now()
        self._sensors.publish(self._on_odometry)
        if self._base is not None:
            self._base.publish_due()
        if self._viewer is not None and self._viewer.is_running():
            with self._lock:
                self._viewer.sync()

    def _on_odometry(self, odom: Odometry, state: BaseState) -> None:
        if self._base is not None:
            self._base.disturb(odom)
        self._frames.publish(odom, state)

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
