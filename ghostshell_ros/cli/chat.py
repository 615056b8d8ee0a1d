# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell chat`: talk to a robot line by line over one connection."""

import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from ghostshell.srv import AnswerQuestion
from std_msgs.msg import Bool

from ghostshell_ros import halt_door
from ghostshell_ros.cli.follow import CONFIRM_S, Follower, NotThereError, RobotClient, exit_status, on_signals, told, wait_ready
from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import WAIT_S, shared, spun
from ghostshell_ros.cli.run_view import RunScreen
from ghostshell_ros.cli.say import Robot, Wait
from ghostshell_ros.cli.skills import phrases_of, told_skills
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.service_client import HaltClient, ServiceClient
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.qos import LATCHED
from planners.language.stop_words import is_stop
from skill_kernel.processes.questions import PRIVATELY, in_private, named
from skill_kernel.roles import Act, key_role

HELP = {
    "stop": "halt the robot at once, as does every other stop word; `stop ID` only ends one process",
    "clear": "clear the halt, so that the robot takes instructions again",
    "answer": "answer what the robot asks, or the question whose ID follows. While one is open a line answers it; `!` before a "
    "line makes that an instruction",
    "ps": "show what runs, waits or is paused",
    "pause": "pause what moves the body, or the process whose ID follows",
    "resume": "let a paused task go on",
    "skills": "list what the robot understands",
    "help": "show these lines",
    "quit": "leave, as do exit and Ctrl-D; what you began ends with you. Ctrl-C only ends what you began",
}
LEAVE = ("quit", "exit")
_ARGUMENT = re.compile(r"-{1,2}[a-z]\S*|[0-9a-f]{4,16}")
"""An option, or the beginning of a process's id: "pause the music" is an instruction."""
_PREFIX = re.compile(r"(?:\./)?ghostshell +")
"""The commands of a shell, as messages name them."""
SECRETLY = "--private"
"""Option of the command `answer`."""
INSTRUCTS = "!"
"""Sign before a line that is no answer."""
ANSWERED_S = 5.0
"""A robot that does not confirm an answer within this time has perhaps not got it."""
CONFIRMED_S = 1.0
"""A halt that the gate does not confirm within this time is told to a person."""
LOOK_S = 0.1
TOOLBAR_S = 0.5


def chat(robot: Robot = "", wait: Wait = WAIT_S) -> None:
    """Talk to a robot: type instructions, and see what becomes of them. Type the next one while one runs; `stop` halts at once.

    Ctrl-C ends what was begun here; `quit` or Ctrl-D leaves. From a pipe, each line waits for the task before it. Exit
    status: 0, 2 no robot answers; from a pipe, the highest one of its tasks, as `ghostshell say` gives it, and at least 1 where
    no gate has confirmed a halt.
    """
    terminal = sys.stdin.isatty()
    try:
        with spun(lambda: ChatClient(robot)) as client, shared(client):
            screen = RunScreen(client.view, client, table=not terminal)
            wait_ready(client, wait, tell=screen.refresh)
            conversation = Conversation(client, screen, beside=terminal)
            ends = on_signals(_leave, signal.SIGTERM, signal.SIGHUP)
            with ends, typed(conversation) if terminal else piped(conversation) as read:
                status = conversation.hold(read)
    except NotThereError as error:
        fail(error, command="chat")
    raise typer.Exit(0 if terminal else status)


class AskedToEndError(BaseException):
    """Raised by a signal; what runs a command of the chat must not take it for that command's own end."""


def _leave(_: int) -> None:
    raise AskedToEndError


class ChatClient(RobotClient):
    """Follow a robot's whole run, and halt it."""

    def __init__(self, robot: str) -> None:
        super().__init__(robot, everything=True)
        self.halted = False
        self.halting = HaltClient(self, lambda: self.halted)
        self._answers = ServiceClient(self, AnswerQuestion, "answer_question")
        self._answers.prove(lambda: AnswerQuestion.Request(question_id="nobody's"))
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)

    def _on_halted(self, message: Bool) -> None:
        self.halted = message.data
        if self.halted:
            self.halting.confirmed()

    def answer(self, question_id: str, text: str, tell: Callable[[str], object]) -> None:
        """Answer a question, "" = the only one; `tell` hears how that went. From any thread."""

        def answered(response: AnswerQuestion.Response | None) -> None:
            lost = "nothing says that the answer has arrived; if the question is still open, give it again"
            told = lost if response is None else response.error_msg or f"answered: {response.answer}"
            refused = response is not None and not response.success
            tell(f"{told} (`!` before a line makes it an instruction)" if refused else told)

        request = AnswerQuestion.Request(question_id=question_id, text=text)
        request = signed(self, "answer_question", request, key_role(Act.INSTRUCT))
        self.call_soon(lambda: self._answers.ask(request, answered, deadline_s=ANSWERED_S, wait_s=ANSWERED_S))


class Conversation:
    """Obey lines while a thread shows what happens. `beside`: commands run on threads of their own, so that the keyboard is
    heard, and a stop word above all, while one waits for an answer."""

    def __init__(self, client: ChatClient, screen: RunScreen, *, beside: bool = False) -> None:
        self.client, self._screen, self._beside = client, screen, beside
        self.say = screen.say
        self._follower, self._done, self._status = Follower(client, screen), threading.Event(), 0
        self._halts: list[str] = []
        """Halts through ROS of which nothing has been told yet."""
        self.begun_s = 0.0
        """When the line that is obeyed next was begun, on the clock of the view."""

    def hold(self, read: Callable[[], str]) -> int:
        """Obey lines until there is none (EOFError), end what runs, and return the highest exit status of the tasks."""
        showing = threading.Thread(target=self._show, name="screen", daemon=True)
        showing.start()
        try:
            while True:
                try:
                    if not self.obey(read().strip()):
                        break
                except KeyboardInterrupt:
                    if not self.end_tasks("Ctrl-C"):
                        self.say("nothing that was begun here runs; quit or Ctrl-D leaves")
                except (EOFError, AskedToEndError, OSError):
                    break
        finally:
            self.end_tasks("the chat has ended")
            with suppress(KeyboardInterrupt, AskedToEndError):
                self.wait(CONFIRM_S)
            self._done.set()
            showing.join(CONFIRM_S)
        return self._status

    def obey(self, line: str) -> bool:
        """Obey a line. Return whether the conversation goes on."""
        line = _PREFIX.sub("", line)
        name, *rest = line.split() or [""]
        rest = [self.client.view.process_of(word) or word for word in rest] if name in ("stop", "pause", "resume") else rest
        if is_stop(line, self.client.robot):
            self.halt(line)
        elif self.answers(line, self.begun_s):
            pass
        elif name in LEAVE and not rest:
            return False
        elif name == "help" and not rest:
            self.say("\n".join([*(f"{one:8} {does}" for one, does in HELP.items()), "Anything else is an instruction."]))
        elif _is_command(name, rest):
            words = [name, *rest, *(("--robot", self.client.robot) if self.client.robot else ())]
            if self._beside:
                threading.Thread(target=_run, args=(words,), name=name, daemon=True).start()
            else:
                _run(words)
        elif line := line.removeprefix(INSTRUCTS).strip():
            self._screen.begin()
            self.client.send(line)
        return True

    def answers(self, line: str, begun_s: float) -> bool:
        """Answer a question by a line, where it does: by the command `answer`, or any other while one is open that was shown
        before the line was begun. Return whether it did."""
        line = _PREFIX.sub("", line.strip())
        view, (name, *rest) = self.client.view, line.split() or [""]
        if name == "answer" and rest and view.questions:
            question_id, line = answer_in(line)
        elif in_private(line)[1]:
            question_id = view.asked(begun_s)  # never an instruction, which all could read; the robot says which it could be
        elif not name or _is_command(name, rest) or line.startswith(INSTRUCTS) or not (question_id := view.asked(begun_s)):
            return False
        self.client.answer(question_id, line, self.say)
        return True

    def halt(self, line: str, *, show: bool = False) -> None:
        """Halt the robot: by the local socket of its gate, or else through ROS until the gate confirms it. `show` the line of
        a person that the terminal does not show yet."""
        client, cause = self.client, f"told “{line.strip()}”"
        told = halt_door.halt(halt_door.ros_domain(), client.robot, cause)
        if show:
            self.say(f"{client.robot}> {line}")
        if told is not None:
            self.say(f"{client.robot}: {told}")
            return
        self._halts.append(cause)
        client.call_soon(client.halting.halt, cause)
        client.call_soon(client.call_later, CONFIRMED_S, self._unconfirmed)

    def _unconfirmed(self) -> None:
        try:
            if self.client.halting.asking:
                self._status = max(self._status, 1)
                self.say(f"NO GATE HAS CONFIRMED THE HALT for {CONFIRMED_S:g} s; it is still asked: use the robot's own switch")
            else:
                self.say(f"{self.client.robot}: halted; clear ends the halt")
        finally:
            self._halts.pop()

    def end_tasks(self, why: str) -> bool:
        """Ask for the end of each task that was begun here. Return whether there was one to ask for."""
        running = [sent for sent in self.client.running if not sent.why]
        for sent in running:
            sent.cancel(why)
        return bool(running)

    def wait(self, timeout_s: float = float("inf")) -> None:
        """Wait for the ends of all tasks, and for what is told of each halt."""
        until_s = time.monotonic() + timeout_s
        while (self._halts or not self._follower.idle) and time.monotonic() < until_s and not self._done.is_set():
            time.sleep(LOOK_S / 2)

    def doing(self) -> str:
        """Return in a line what the robot does."""
        return "halted; type clear" if self.client.halted else self.client.view.waiting(self.client.now_s()) or "nothing runs"

    def _show(self) -> None:
        while not self._done.is_set():
            try:
                for sent in self._follower.step(LOOK_S):
                    if sent.end is not None:
                        self._status = max(self._status, exit_status(sent.end))
                        self.say(self.client.view.ended(sent.process_id, told(sent.end, self.client.view)))
                        if sent.process_id:  # of one that the robot did not end itself nothing more may come
                            self.client.view.lose(self.client.now_s(), sent.process_id)
            except (OSError, SystemExit):  # the terminal has gone, or the reader of the pipe
                if not self.end_tasks("nobody reads any more") and self._follower.idle:
                    os.kill(os.getpid(), signal.SIGHUP)
                    return


def _is_command(name: str, rest: list[str]) -> bool:
    """Return whether a word with what follows it is a command of the chat."""
    return (name in HELP and all(map(_ARGUMENT.fullmatch, rest))) or (name in LEAVE and not rest)


def _run(words: list[str]) -> None:
    """Run another command over the connection of the chat."""
    from ghostshell_ros.cli.main import app

    with suppress(SystemExit):
        app(words)


@contextmanager
def piped(conversation: Conversation) -> Iterator[Callable[[], str]]:
    """Give what reads a line of standard input when nothing runs any more. A stop word is obeyed as soon as it arrives."""
    arrived: queue.Queue[str] = queue.Queue()

    def take() -> None:
        for line in (raw.decode(errors="replace") for raw in sys.stdin.buffer):
            if is_stop(line, conversation.client.robot):
                conversation.halt(line)
            elif not conversation.answers(line, conversation.client.now_s()):
                arrived.put(line)
        arrived.put("")

    def read() -> str:
        while True:
            conversation.wait()
            with suppress(queue.Empty):
                if line := arrived.get(timeout=LOOK_S):
                    return line
                raise EOFError

    threading.Thread(target=take, name="reader", daemon=True).start()
    yield read


@contextmanager
def typed(conversation: Conversation) -> Iterator[Callable[[], str]]:
    """Give what reads a line that a person types, with completion and history."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.patch_stdout import patch_stdout

    robot, words = conversation.client.robot, [*HELP]

    class Words(Completer):
        """Complete a line, or its last word. The robot's sentences are made when they are first wanted: it takes a second."""

        def get_completions(self, document: Any, complete_event: Any) -> Iterable[Completion]:
            if len(words) == len(HELP):
                with suppress(SystemExit, typer.Exit):
                    for one in phrases_of(told_skills(robot, WAIT_S), robot):
                        words.extend((*one.english, *one.chinese))
            for text, begun in completions(document.text_before_cursor, words):
                yield Completion(text, -len(begun))

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: Any) -> None:
        """Halt before anything is drawn where the line is a stop word."""
        text, buffer = event.current_buffer.text, event.current_buffer
        if not is_stop(text, robot):
            conversation.begun_s = line.begun_s
            buffer.validate_and_handle()
            return
        conversation.halt(text, show=True)
        buffer.reset(append_to_history=True)

    session: PromptSession[str] = PromptSession(
        f"{robot}> ",
        history=history(),
        auto_suggest=AutoSuggestFromHistory(),
        completer=Words(),
        complete_while_typing=False,
        complete_in_thread=True,
        key_bindings=keys,
        bottom_toolbar=conversation.doing,
        refresh_interval=TOOLBAR_S,
    )
    line = Line(conversation.client.now_s)
    session.default_buffer.on_text_changed += lambda buffer: line.changed(buffer.text)
    greetings = [f"{robot} listens. Type what it should do, or help; stop halts it."]

    def greet() -> None:
        while greetings:
            conversation.say(greetings.pop())

    def read() -> str:
        while True:
            try:
                return session.prompt(pre_run=greet)
            except KeyboardInterrupt:
                if conversation.client.running or not session.default_buffer.text:
                    raise

    with patch_stdout(raw=True):
        yield read


class Line:
    """Follow a line that is typed: `begun_s` is when it got its first letter, by typing, pasting or from the history."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s, self._empty, self.begun_s = now_s, True, 0.0

    def changed(self, text: str) -> None:
        """Take the text as it is now."""
        if text and self._empty:
            self.begun_s = self._now_s()
        self._empty = not text


def completions(line: str, words: Iterable[str]) -> list[tuple[str, str]]:
    """Return what a line, or else its last word, may become, each with the part that it takes the place of."""
    whole = [(one, line) for one in dict.fromkeys(words) if one.lower().startswith(line.lower())]
    begun = line.rpartition(" ")[2]
    single = sorted({word for one in words for word in one.split() if begun and word.lower().startswith(begun.lower())})
    return whole or [(word, begun) for word in single]


def answer_in(line: str) -> tuple[str, str]:
    """Return the id of the question that a line names, "" for none, and the answer, which the command `answer` may give."""
    name, *rest = line.split() or [""]
    if name != "answer":
        return "", line
    question_id, text = named([word for word in rest if word != SECRETLY])
    return question_id, f"{PRIVATELY} {text}" if SECRETLY in rest else text


def history() -> Any:
    """Return the lines typed before, for the prompt. A private answer is known until the chat ends, and written nowhere."""
    from prompt_toolkit.history import FileHistory

    class Lines(FileHistory):
        def store_string(self, string: str) -> None:
            if not in_private(answer_in(_PREFIX.sub("", string.strip()))[1])[1]:
                super().store_string(string)

    return Lines(history_file())


def history_file() -> str:
    """Return the file of lines typed before, which nobody else may read."""
    path: Path = data_folder() / "chat_history"
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    path.chmod(0o600)
    return str(path)
