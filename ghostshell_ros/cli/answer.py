# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell answer`: answer what a robot asks."""

from typing import Annotated

import typer

from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import WAIT_S, RobotClient
from ghostshell_ros.cli.say import Robot, Wait
from skill_kernel.processes.questions import PRIVATELY, named
from skill_kernel.roles import Act, key_role


def answer(
    words: Annotated[
        list[str] | None, typer.Argument(help="the answer, behind the question's ID if several are open", metavar="[ID] TEXT")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="nobody else is shown the answer; of a team that asks by name")
    ] = False,
    robot: Robot = "",
    wait: Wait = WAIT_S,
) -> None:
    """Answer what the robot asks; without an answer, show what it asks. Exit status: 0, 1 the answer was refused, 2 no robot
    answers."""
    client = RobotClient(
        robot,
        wait,
        service="ghostshell/AnswerQuestion answer_question",
        topics=["ghostshell/QuestionArray questions"],
        nobody=f"nobody of robot '{robot}' answers within {wait:g} s; is it launched on this ROS domain?",
    )
    with client:
        from ghostshell_ros.cli.run_view import question_line

        asked = {question.id: question for question in client.latched().questions}
        if not words:
            print("\n".join(map(question_line, asked.values())) or f"{robot} asks nothing")
            return
        client.prove(client.type.Request(question_id="nobody's"))
        question_id, text = named(words)
        request = client.type.Request(question_id=question_id, text=f"{PRIVATELY} {text}" if private else text)
        taken = client.ask(request, role=key_role(Act.INSTRUCT))
    if not taken.success:
        fail(taken.error_msg, command="answer", status=1)
    print(taken.error_msg or f"{asked[taken.question_id].text if taken.question_id in asked else robot}: {taken.answer}")
