# SPDX-License-Identifier: Apache-2.0
"""Write a robot's MuJoCo model as URDF, for tools that know no MJCF."""

from collections.abc import Iterable
from xml.etree import ElementTree

import mujoco
import numpy as np

from ghostshell_ros.sim.gait import Vector, euler
from ghostshell_ros.sim.world import SimWorldError

_GEOM, _JOINT = mujoco.mjtGeom, mujoco.mjtJoint
_HIDDEN_GROUP = 3
"""MuJoCo draws geoms of this group and above only when it is told to."""


def robot_bodies(model: mujoco.MjModel, base: int) -> list[int]:
    """Return the bodies of a robot, its base first and each after its parent."""
    bodies = [base]
    for body in range(base + 1, model.nbody):
        if model.body_parentid[body] in bodies:
            bodies.append(body)
    return bodies


def urdf(model: mujoco.MjModel, base: int, name: str) -> str:
    """Return the URDF of the robot `name` from its base on: links, joints with ranges, mass, and geoms of simple shape.

    A capsule becomes a cylinder and two spheres, an ellipsoid its box; meshes are left out. Raises SimWorldError when a body
    has several joints or one away from its origin, which a link cannot have.
    """
    robot = ElementTree.Element("robot", name=name)
    for body in robot_bodies(model, base):
        link = ElementTree.SubElement(robot, "link", name=model.body(body).name)
        _inertia(link, model, body)
        first = model.body_geomadr[body]
        for geom in range(first, first + model.body_geomnum[body]):
            if model.geom_group[geom] < _HIDDEN_GROUP:
                _shapes(link, "visual", model, geom)
            if model.geom_contype[geom] or model.geom_conaffinity[geom]:
                _shapes(link, "collision", model, geom)
        if body != base:
            _joint(robot, model, body)
    ElementTree.indent(robot)
    return ElementTree.tostring(robot, encoding="unicode", xml_declaration=True)


def _joint(robot: ElementTree.Element, model: mujoco.MjModel, body: int) -> None:
    name, first = model.body(body).name, model.body_jntadr[body]
    if model.body_jntnum[body] > 1 or (first >= 0 and np.any(model.jnt_pos[first])):
        raise SimWorldError(f"body '{name}' has several joints or one away from its origin: give each a body at its place")
    kind = "fixed"
    if first >= 0:
        turns = model.jnt_type[first] == _JOINT.mjJNT_HINGE
        kind = "prismatic" if not turns else "revolute" if model.jnt_limited[first] else "continuous"
    joint = ElementTree.SubElement(robot, "joint", name=model.joint(first).name if first >= 0 else f"{name}_fixed", type=kind)
    ElementTree.SubElement(joint, "parent", link=model.body(model.body_parentid[body]).name)
    ElementTree.SubElement(joint, "child", link=name)
    _origin(joint, model.body_pos[body], model.body_quat[body])
    if first < 0:
        return
    ElementTree.SubElement(joint, "axis", xyz=_numbers(model.jnt_axis[first]))
    lower, upper = model.jnt_range[first] if model.jnt_limited[first] else (0.0, 0.0)
    effort = model.jnt_actfrcrange[first][1] if model.jnt_actfrclimited[first] else 0.0
    # MuJoCo limits no speed, and URDF wants one.
    ElementTree.SubElement(joint, "limit", lower=f"{lower:g}", upper=f"{upper:g}", effort=f"{effort:g}", velocity="10")


def _inertia(link: ElementTree.Element, model: mujoco.MjModel, body: int) -> None:
    inertial = ElementTree.SubElement(link, "inertial")
    _origin(inertial, model.body_ipos[body], model.body_iquat[body])
    ElementTree.SubElement(inertial, "mass", value=f"{model.body_mass[body]:g}")
    xx, yy, zz = (f"{part:g}" for part in model.body_inertia[body])
    ElementTree.SubElement(inertial, "inertia", ixx=xx, iyy=yy, izz=zz, ixy="0", ixz="0", iyz="0")


def _shapes(link: ElementTree.Element, role: str, model: mujoco.MjModel, geom: int) -> None:
    kind, size = _GEOM(model.geom_type[geom]), model.geom_size[geom]
    at, turned = model.geom_pos[geom], model.geom_quat[geom]
    radius, length = {"radius": f"{size[0]:g}"}, {"length": f"{2 * size[1]:g}"}
    shapes: list[tuple[str, dict[str, str], np.ndarray]] = []
    if kind in (_GEOM.mjGEOM_BOX, _GEOM.mjGEOM_ELLIPSOID):
        shapes = [("box", {"size": _numbers(2 * size)}, at)]
    elif kind == _GEOM.mjGEOM_SPHERE:
        shapes = [("sphere", radius, at)]
    elif kind in (_GEOM.mjGEOM_CYLINDER, _GEOM.mjGEOM_CAPSULE):
        shapes = [("cylinder", radius | length, at)]
        if kind == _GEOM.mjGEOM_CAPSULE:
            along = np.empty(3)
            mujoco.mju_rotVecQuat(along, np.array([0.0, 0.0, size[1]]), turned)
            shapes += [("sphere", radius, at + along), ("sphere", radius, at - along)]
    material = model.geom_matid[geom]
    colour = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
    for name, measures, place in shapes:
        shape = ElementTree.SubElement(link, role)
        _origin(shape, place, turned)
        ElementTree.SubElement(ElementTree.SubElement(shape, "geometry"), name, measures)
        if role == "visual":
            painted = ElementTree.SubElement(shape, "material", name=f"colour_{material}_{geom if material < 0 else 0}")
            ElementTree.SubElement(painted, "color", rgba=_numbers(colour))


def _origin(element: ElementTree.Element, at: Iterable[float], turned: Vector) -> None:
    ElementTree.SubElement(element, "origin", xyz=_numbers(at), rpy=_numbers(euler(turned)))


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{value:.6g}" for value in values)
