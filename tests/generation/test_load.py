from lib.generation import load


def test_a_model_is_loaded_once_with_the_settings(monkeypatch):
    loaded = []

    def load_language_model(name, **settings):
        loaded.append((name, settings))
        return object()

    monkeypatch.setattr(load, "load_language_model", load_language_model)
    model_of = load.loader(cache="kept", batch_size=4)
    first = model_of("one")
    assert model_of("one") is first
    assert model_of("other") is not first
    assert loaded == [(name, {"cache": "kept", "batch_size": 4}) for name in ("one", "other")]
