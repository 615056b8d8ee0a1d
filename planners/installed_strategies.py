# SPDX-License-Identifier: Apache-2.0
"""Load the strategies that are installed, and keep those out that cannot be used."""

from collections.abc import Iterable

from planners.strategy import GROUP, Feed, Parameter, Strategy
from skill_kernel.config.plugins import PluginError, plugins


def strategy_names() -> tuple[str, ...]:
    """Return the names of all installed strategies. Raises PluginError when two packages claim one name."""
    return tuple(plugins(GROUP))


def load_strategies() -> tuple[dict[str, Strategy], dict[str, str]]:
    """Return the installed strategies by name, and the names of those that cannot be used with the reason.

    Raises PluginError when two packages claim one name.
    """
    strategies: dict[str, Strategy] = {}
    broken: dict[str, str] = {}
    for name, point in plugins(GROUP).items():
        try:
            made = point.load()
            strategy = made() if callable(made) else made
            if not isinstance(strategy, Strategy) or strategy.name != name:
                raise PluginError(f"it is no Strategy of the name '{name}'")
            _check_shared(strategy, strategies.values())
        except Exception as error:  # noqa: BLE001 - a broken package must not take the robot with it
            broken[name] = f"strategy '{name}' ({point.value}) cannot be used: {type(error).__name__}: {error}"
        else:
            strategies[name] = strategy
    return strategies, broken


def strategies_that_want(feed: Feed) -> frozenset[str]:
    """Return the names of the installed strategies that ask for a feed. Raises PluginError as `load_strategies` does."""
    return frozenset(name for name, strategy in load_strategies()[0].items() if feed in strategy.wants)


def _check_shared(new: Strategy, known: Iterable[Strategy]) -> None:
    """Refuse a strategy that describes a role or a parameter of another one differently."""
    parameters, roles = {p.name: p for p in new.parameters}, {r.name: r for r in new.roles}
    for other in known:
        for p in other.parameters:
            if parameters.get(p.name, p) != p:
                raise PluginError(f"strategies '{other.name}' and '{new.name}' describe the parameter '{p.name}' differently")
        for role in other.roles:
            if roles.get(role.name, role) != role:
                raise PluginError(f"strategies '{other.name}' and '{new.name}' describe the role '{role.name}' differently")


def parameters_of(strategies: Iterable[Strategy]) -> list[Parameter]:
    """Return each parameter of the strategies once."""
    return list({p.name: p for s in strategies for p in s.parameters}.values())
