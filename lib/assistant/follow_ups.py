"""Queries that lean on the turn before: "and the one after that?".

Such a query stands where a plain one would: the plain one and the plan that serves it become the turn before, and the
follow-up's label comes from the need that both are about (`lib.assistant.needs.FollowUps`), never from a text.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np

from lib.assistant.needs import Need, Sequel, expand
from lib.assistant.personas import (
    Life,
    LivedNeed,
    Scene,
    allowed_wordings,
    draw_log,
    make_item,
    moment_facts,
    next_occurrence,
)
from lib.assistant.queries import Family, Gold, Query, Turn, rank_apps, resolve_calls
from lib.assistant.toolbox import Toolbox

MINUTES_AFTER = (1, 5)  # the turn before: at least 1, fewer than 5


def sequel_of(lived: LivedNeed) -> Sequel | None:
    """What is asked for once the need was served; None where no conversation goes on."""
    need = lived.need
    return need.follow_ups.keeps[lived.keep_name] if isinstance(need, Need) and need.follow_ups else None


def furnish_sequel(life: Life, lived: LivedNeed, scene: Scene) -> bool:
    """Write the item that only a follow-up asks for, if there is one, into the persona's apps; whether a follow-up has
    its answer there: it has not where no conversation goes on, or where the app has no room left."""
    sequel = sequel_of(lived)
    if sequel is None or lived.happens is None:
        return False
    for name, template in sequel.items.items():
        if name in lived.sequel:
            continue
        if life.room(template.app) <= 0:
            return False
        happens = next_occurrence(lived.slot, lived.happens + timedelta(days=1))
        namespace = life.people | life.facts | moment_facts(happens, life.rng) | lived.variables
        key = f"{lived.need.need}/{lived.keep_name}/{name}"
        options = allowed_wordings(len(template.wordings), key, scene.side, scene.knobs)
        number = options[life.rng.integers(len(options))]
        moments = draw_log(life, lived.slot, life.today, scene.knobs)
        item = make_item(template.app, template.wordings[number], namespace, moments, happens, life)
        lived.sequel[name] = [item]
        life.add(template.app, item, "need", lived.need.need, f"{key}/{number}")
    return True


def follow_up(
    before: Query, served: Gold, family: Family, lived: LivedNeed, life: Life, toolbox: Toolbox
) -> tuple[Query, Gold]:
    """The query after another, minutes later at the same place, with its labels.

    Args:
        before, served: the other query and its labels, of the same need; the follow-up takes over its id and its kind.
        family: how the follow-up is voiced.
        lived: the need, with what `furnish_sequel` wrote.

    Raises:
        ValueError: no conversation goes on about this need.
    """
    sequel = sequel_of(lived)
    if sequel is None:
        raise ValueError(f"need {lived.need.need}: has no follow-ups")
    whole = replace(lived, items=lived.items | lived.sequel)
    plan, apis, answers = resolve_calls(sequel.on(lived.keep).calls, whole, life, toolbox, {})
    query = before.model_copy(
        update={
            "text": utter(family.text, life.rng),
            "time": before.time + timedelta(minutes=int(life.rng.integers(*MINUTES_AFTER))),
            "history": Turn(text=before.text, plan=served.plan),
        }
    )
    thoughts = lived.need.thoughts("habit")  # the words do not name the matter
    gold = Gold(
        query=before.id,
        kind=served.kind,
        need=lived.need.need,
        phrasing=family.id,
        relevant=[item.id for item in whole.items[sequel.about]],
        apis=apis,
        apps=rank_apps(lived, toolbox, apis[0]),
        plan=plan,
        answers=answers,
        cot=thoughts[life.rng.integers(len(thoughts))],
    )
    return query, gold


def utter(text: str, rng: np.random.Generator) -> str:
    """One surface form of a phrasing, now and then typed in haste; nobody greets in mid-conversation."""
    form = expand(text, lambda options: options[rng.integers(len(options))])
    return form.rstrip(".!?").lower() if rng.random() < 0.15 else form
