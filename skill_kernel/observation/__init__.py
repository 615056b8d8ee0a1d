# SPDX-License-Identifier: Apache-2.0
"""What the robot senses, as typed fields with their age, and the accessors that prompts, conditions and reflexes share."""
