"""Ways of putting a workflow into words that do not depend on its APIs: frames, links, conditions, references.

Every list is split between training and test requests by `split_wordings`. In the templates {T} is the trigger's
clause, {t} the trigger in telegraph style, {B} the rest of the workflow, {c} a condition, {a} what is done, {f} words
for an output, {v} a value. A capital {When} begins a sentence.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

WHENS = ("when", "whenever", "every time", "each time", "as soon as", "once", "any time", "the moment", "if", "after")
WHEN_WEIGHTS = (10, 5, 3, 2, 3, 1.5, 1, 0.8, 2, 1)

# The trigger comes first; {B} begins with an action or with "if". Plainly:
TRIGGER_PLAIN = (
    "{When} {T}, {B}",
    "{When} {T} {B}",
    "{When} {T}: {B}",
    "{When} {T} then {B}",
    "{When} {T} - {B}",
    "{When} {T}; {B}",
    "{When} {T}, then {B}",
    "So {when} {T}, {B}",
    "Wait until {T}, then {B}",
)
# With something around it:
TRIGGER_CHATTY = (
    "Hi, {when} {T}, {B}",
    "I want a flow: {when} {T}, {B}",
    "Build me a workflow. {When} {T}, {B}",
    "Create a flow that does this: {when} {T}, {B}",
    "I need some help with this one: {when} {T}, {B}",
    "Starting point: {T}. Then {B}",
    "Flow idea: {when} {T}, {B}",
    "Automate this for me, {when} {T}, {B}",
    "Watch for this: {T}. In that case {B}",
    "Make a flow for our team: {when} {T}, {B}",
    "Here is what should happen {when} {T}: {B}",
    "Please automate the following. {When} {T}, {B}",
    "New flow please: {when} {T}, {B}",
    "I would like this to happen {when} {T}: {B}",
    "Can you set this up for me? {When} {T}, {B}",
    "What I need: {when} {T}, {B}",
    "Keep an eye out: {when} {T}, {B}",
    "My idea is this: {when} {T}, {B}",
    "Hello! {When} {T}, {B}",
    "Let's do the following {when} {T}: {B}",
    "Could we have a flow like this? {When} {T}, {B}",
)
# {B} begins with an action, in the infinitive or as an imperative.
WISH_FIRST = (
    "{When} {T}, please {B}",
    "{When} {T}, automatically {B}",
    "{When} {T}, I want to {B}",
    "{When} {T} I need to {B}",
    "{When} {T}, can you {B}",
    "{When} {T}, we have to {B}",
    "{When} {T}, the system should {B}",
    "{When} {T}, help me {B}",
    "My manager wants us to do this: {when} {T}, {B}",
    "{When} {T}, let's {B}",
    "{When} {T}, would you please {B}",
    "{When} {T} it should {B}",
    "{When} {T}, remember to {B}",
    "{When} {T}, go ahead and {B}",
    "{When} {T}, always {B}",
    "{When} {T}, I'd like you to {B}",
    "{When} {T}, make sure to {B}",
    "Hey there! {When} {T} could you {B}",
    "The flow begins {when} {T}. It should {B}",
    "{When} {T}, the flow has to {B}",
    "Basically, {when} {T} I always have to {B}",
    "{When} {T}, just {B}",
    "{When} {T}, immediately {B}",
)
# Actions come first; {B} is what is done, the rest follows in sentences of its own.
ACTION_FIRST = (
    "{B} {when} {T}",
    "Please {B} {when} {T}",
    "Can you {B} {when} {T}",
    "I want to {B} {when} {T}",
    "I'd like to {B} {when} {T}",
    "Automatically {B} {when} {T}",
    "Set up a flow to {B} {when} {T}",
    "Help me {B} {when} {T}",
    "Could you {B} {when} {T}",
    "We need to {B} {when} {T}",
    "I keep forgetting to {B} {when} {T}",
    "Build something to {B} {when} {T}",
    "Is there a way to {B} {when} {T}",
    "Create an automation to {B} {when} {T}",
    "I need a flow to {B} {when} {T}",
    "How do I {B} {when} {T}",
    "Hello, I am trying to {B} {when} {T}",
    "Make it {B} {when} {T}",
    "My task is to {B} {when} {T}",
    "Let's {B} {when} {T}",
)
# Telegraph style: the trigger with what follows it, then what stands between the further parts.
TELEGRAPH = (
    ("{t} -> ", " -> "),
    ("{t} → ", " → "),
    ("{t} => ", " => "),
    ("{t}, then ", ", then "),
    ("{t}: ", ", "),
    ("{t} > ", " > "),
    ("on {t}: ", ", "),
    ("{t}; ", "; "),
    ("{t} - ", " - "),
    ("flow: {t} -> ", " -> "),
    ("{t} / ", " / "),
    ("for every {t}: ", ", "),
    ("{t} | ", " | "),
    ("quick flow, {t} -> ", " -> "),
    ("{t} >> ", " >> "),
    ("after {t}: ", "; "),
    ("{t}... ", ", then "),
    ("need a flow: {t}, ", ", "),
)
# One line a step: what stands before the trigger, before each further step, and between.
STEPS = (
    ("1. {When} {T}", "{n}. ", " "),
    ("1) {when} {T}", "{n}) ", " "),
    ("Trigger: {T}.", "Action: ", ". "),
    ("Step 1: {T}.", "Step {n}: ", ". "),
    ("{When} {T}:", "- ", " "),
    ("Start: {T}", "next: ", "; "),
    ("First, {T}.", "Step {n}, ", ". "),
    ("({n0}) {when} {T}", "({n}) ", ", "),
    ("Trigger = {T};", "action = ", "; "),
)
# Nothing but a trigger.
TRIGGER_ONLY = (
    "Start a flow {when} {T}",
    "I need a flow that starts {when} {T}",
    "Run my flow {when} {T}",
    "Kick things off {when} {T}",
    "Set up a trigger for {when} {T}",
    "{When} {T}, start the workflow",
    "Just the trigger for now: {T}",
    "Begin {when} {T}",
    "Create an empty flow that runs {when} {T}",
    "A flow should start {when} {T}, I will add the steps later",
    "Trigger: {T}",
    "{When} {T} a flow should run",
    "Let a flow begin {when} {T}",
    "Give me a flow with only a trigger, namely {when} {T}",
    "Fire {when} {T}",
)
# Between actions: of two, before the middle ones of several, before the last of several.
JOINS = (
    (" and ", ", ", " and "),
    (" and then ", ", ", " and then "),
    (", then ", ", then ", ", then "),
    (". Then ", ". Then ", ". Finally, "),
    (". After that, ", ". Next, ", ". Lastly, "),
    (" and also ", ", ", " and also "),
    ("; then ", "; ", "; then "),
    (". Afterwards, ", ". Afterwards, ", ". In the end, "),
    (" and afterwards ", ", next ", ", and finally "),
    (". Next, ", ". Next, ", ". And finally, "),
    (", and ", ", ", ", and "),
)
# Between actions and a condition after them: before "if …" in the same sentence or in a new one.
IF_LINKS = (". ", ", and ", ". Then ", ", then ", ". Next, ", "; ", ". After that, ", ", but ")
# if, else if, else, and what stands between them. Sentences begin with a capital after ". ".
IF_STYLES = (
    ("if {c}, {a}", "else if {c}, {a}", "otherwise {a}", ", "),
    ("if {c}, {a}", "if {c}, {a}", "otherwise, {a}", ". "),
    ("if {c} then {a}", "if {c} then {a}", "else {a}", ", "),
    ("if {c}, {a}", "but if {c}, {a}", "if not, {a}", ". "),
    ("if {c} {a}", "if {c} {a}", "in all other cases {a}", "; "),
    ("check whether {c}. If so, {a}", "If instead {c}, {a}", "If not, {a}", ". "),
    ("in case {c}, {a}", "in case {c}, {a}", "in every other case, {a}", ". "),
    ("provided that {c}, {a}", "but if {c}, {a}", "failing that, {a}", "; "),
    ("only if {c}, {a}", "if rather {c}, {a}", "otherwise just {a}", ". "),
    ("if {c}, then {a}", "or if {c}, then {a}", "or else {a}", ", "),
    ("see if {c}. If yes, {a}", "If not but {c}, {a}", "If no, {a}", ". "),
    ("as long as {c}, {a}", "when {c} instead, {a}", "for all others {a}", ", "),
    ("where {c}, {a}", "where {c}, {a}", "for anything else, {a}", "; "),
    ("if it turns out that {c}, {a}", "if it turns out that {c}, {a}", "if none of this holds, {a}", ". "),
    ("whenever {c}, {a}", "whenever {c}, {a}", "the rest of the time, {a}", ". "),
    ("if {c}, please {a}", "if {c}, please {a}", "otherwise please {a}", ". "),
    ("if {c}: {a}", "if {c}: {a}", "else: {a}", "; "),
    ("check if {c}. In that case {a}", "If {c}, {a}", "In any other case, {a}", ". "),
    ("if {c}, just {a}", "if {c}, just {a}", "if it is something else, {a}", "; "),
    ("if and only if {c}, {a}", "if {c}, {a}", "else, {a}", ". "),
    ("if {c}, always {a}", "or, if {c}, {a}", "or otherwise {a}", ", "),
    ("see whether {c}, and if it is so, {a}", "If {c} instead, {a}", "If it is not so, {a}", ". "),
    ("if {c} we have to {a}", "if {c} we have to {a}", "in other cases we have to {a}", ", "),
    ("but only if {c}, {a}", "if {c} then {a}", "otherwise, please {a}", ". "),
)
# After an action that came first, with its trigger.
ONLY_IFS = (
    ", but only if {c}",
    ", but only when {c}",
    " and {c}",
    ", provided {c}",
    ", as long as {c}",
    ", if {c}",
    ", on condition that {c}",
    ", though only where {c}",
    ", but just when {c}",
)
# The condition as part of the trigger.
MERGED = ("{T} and {c}", "{T}, and {c}", "{T} and if {c}", "{T} but only if {c}", "{T} where {c}", "{T}, provided {c}")
POSTS = (". In any case, ", ". Either way, ", ". Whatever the result, ", ". At the end, in both cases, ",
         ". Regardless of that, ", ". No matter what, ")  # fmt: skip
TELEGRAPH_IFS = (
    ("if {c}: {a}", "elif {c}: {a}", "else: {a}", ", "),
    ("if {c} {a}", "else if {c} {a}", "else {a}", ", "),
    ("if {c} -> {a}", "if {c} -> {a}", "else -> {a}", "; "),
    ("only if {c}: {a}", "if {c}: {a}", "otherwise {a}", "; "),
    ("{c}? {a}", "{c}? {a}", "if not: {a}", "; "),
    ("when {c}: {a}", "when {c}: {a}", "rest: {a}", " / "),
)
ENDINGS = (", please", ", thanks", ". Thanks", ". Thank you!", ". Can that be automated?", ", thank you", ", cheers",
           ". That would save me a lot of time", ". Any help is welcome", ". Much appreciated")  # fmt: skip
ENDING_SHARE = 0.06  # of the requests have one

CONDITIONS: dict[str, tuple[str, ...]] = {
    "contains": ("{f} contains {v}", "{f} includes {v}", "{f} mentions {v}", "{f} has {v} in it", "{v} is in {f}",
                 "{v} appears in {f}", "{f} contains the word {v}", "{f} has the word {v} in it",
                 "{v} can be found in {f}"),
    "lacks": ("{f} does not contain {v}", "{f} doesn't mention {v}", "{v} is not in {f}", "{f} does not include {v}",
              "{v} is missing from {f}", "there is no {v} in {f}"),
    "==": ("{f} is {v}", "{f} equals {v}", "{f} is set to {v}", "{f} matches {v}", "{f} is exactly {v}",
           "{f} is equal to {v}"),
    "!=": ("{f} is not {v}", "{f} isn't {v}", "{f} is anything but {v}", "{f} differs from {v}",
           "{f} is something other than {v}", "{f} does not equal {v}"),
    ">": ("{f} is greater than {v}", "{f} is above {v}", "{f} is over {v}", "{f} exceeds {v}", "{f} is more than {v}",
          "{f} is higher than {v}", "{f} > {v}", "{f} is bigger than {v}"),
    "<": ("{f} is less than {v}", "{f} is below {v}", "{f} is under {v}", "{f} is lower than {v}", "{f} < {v}",
          "{f} is smaller than {v}"),
    ">=": ("{f} is at least {v}", "{f} is {v} or more", "{f} is not below {v}", "{f} >= {v}"),
    "<=": ("{f} is at most {v}", "{f} is {v} or less", "{f} is no more than {v}", "{f} <= {v}"),
    "before": ("{f} is before {v}", "{f} is earlier than {v}", "{f} falls before {v}", "{f} lies before {v}"),
    "after": ("{f} is after {v}", "{f} is later than {v}", "{f} falls after {v}", "{f} lies after {v}"),
    "startsWith": ("{f} starts with {v}", "{f} begins with {v}", "{v} is at the start of {f}"),
    "endsWith": ("{f} ends with {v}", "{f} ends in {v}", "{v} is at the end of {f}"),
    "empty": ("{f} is empty", "{f} is blank", "{f} is missing", "nothing is in {f}"),
}  # fmt: skip
# What a yes-or-no output is called when it is true and when it is not; {n} is the thing that has it.
FLAGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "attachment flag": (
        ("there is an attachment", "the {n} has attachments", "the {n} comes with a file"),
        ("there is no attachment", "the {n} has no attachments", "the {n} comes without a file"),
    ),
    "folder flag": (
        ("it is a folder", "a folder is what was added", "it's a folder"),
        ("it is not a folder", "it is no folder", "it's not a folder"),
    ),
    "all-day flag": (
        ("it is an all-day event", "the {n} lasts all day", "it takes the whole day"),
        ("it is not an all-day event", "the {n} does not last all day", "it takes less than a day"),
    ),
}

SYNONYMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("someone ", ("somebody ", "anyone ", "a person ")),
    ("somebody ", ("someone ", "anybody ")),
    ("create ", ("make ", "set up ")),
    ("delete ", ("remove ",)),
    ("remove ", ("delete ",)),
    ("fetch ", ("get ", "retrieve ")),
    ("look up ", ("get ", "find ")),
    ("retrieve ", ("get ", "fetch ")),
    ("notify ", ("alert ", "inform ")),
    ("save ", ("store ", "keep ")),
    (" called ", (" named ", " titled ")),
    (" named ", (" called ",)),
    ("email ", ("e-mail ",)),
    ("with the subject", ("with subject", "and the subject")),
    (" saying ", (" that says ", " reading ")),
    ("with the text", ("with text", "and the text")),
    ("is created", ("gets created", "has been created")),
    ("is added", ("gets added", "has been added")),
    ("is submitted", ("gets submitted", "has been submitted")),
    ("is uploaded", ("gets uploaded", "has been uploaded")),
    ("arrives", ("comes in", "gets here")),
)  # fmt: skip


def split_wordings(wordings: Sequence, seed: int, name: str) -> dict[str, tuple]:
    """A third of the wordings for the test, the others for training, by a shuffle of their own.

    Two wordings give one each; a single one serves both. Training keeps the order of the list.
    """
    order = list(range(len(wordings)))
    random.Random(f"{seed}:{name}").shuffle(order)
    held = set(order[: max(len(wordings) // 3, int(len(wordings) == 2))])
    if not held:
        return {"training": tuple(wordings), "test": tuple(wordings)}
    return {
        "training": tuple(w for i, w in enumerate(wordings) if i not in held),
        "test": tuple(w for i, w in enumerate(wordings) if i in held),
    }
