# SPDX-License-Identifier: Apache-2.0
"""An office of robots and people in text, its tasks, and how they are judged (InteractGen IV and VI)."""
