# SPDX-License-Identifier: Apache-2.0
"""Read natural language without a model: words, numbers, conditions and direct commands, in English and plain Chinese."""
