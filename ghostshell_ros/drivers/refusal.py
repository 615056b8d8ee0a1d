# SPDX-License-Identifier: Apache-2.0
"""Refuse what a driver cannot do, without ROS."""


class DriverRefusal(Exception):
    """Refuse or end a goal; `code` is a constant of the action or a CallCode, the message goes to the caller."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
