# SPDX-License-Identifier: Apache-2.0
"""Show the simulated robots: what Kalos is told in its demonstration, the picture of it, and films of the simulator."""
