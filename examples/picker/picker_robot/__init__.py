# SPDX-License-Identifier: Apache-2.0
"""An arm of five joints on a workbench: its model, what stands around it, its skills."""
