from lib.workflows.apis import API, Connector, Field
from lib.workflows.catalogue import Catalogue
from lib.workflows.frames import CONDITIONS, FLAGS, SENTENCES
from lib.workflows.wordings import Wordings


def test_both_sides_have_every_frame(wordings):
    names = {*SENTENCES, *CONDITIONS, *((name, state) for name in FLAGS for state in (True, False))}
    assert set(wordings.frames["training"]) == set(wordings.frames["test"]) == names
    assert all(wordings.frames[side][name] for side in ("training", "test") for name in names)


def test_a_phrase_whose_slot_nobody_can_say_is_left_out():
    parameters = (Field("code", "code"), Field("flag", "boolean"), Field("title", "title"))
    api = API("c", "Op", "Do", "App", parameters=parameters, phrases=("a {code}", "b {flag}", "c {title} in {app}"))
    wordings = Wordings(Catalogue({api.name: api}, {"c": Connector("c", "App", ("App",))}), {}, seed=7)
    assert wordings.apis[api.name, "phrases", "training"] == ("c {title} in {app}",)
    assert wordings.apis[api.name, "clauses", "test"] == ()
