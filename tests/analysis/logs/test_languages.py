"""Words of a training in other languages are read in English; the rest stays."""

from __future__ import annotations

import pytest

from gputel.analysis.logs.languages import english


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("当前损失值：", "loss :"),
        ("验证损失: ", "validation loss : "),
        ("學習率: ", "learning rate : "),
        ("学習率：", "learning rate :"),
        ("検証損失 ", "validation loss "),
        ("검증 손실: ", "validation loss : "),
        ("Verlust: ", "loss : "),
        ("taux d'apprentissage : ", "learning rate : "),
        ("Época ", "epoch "),
        ("потери = ", "loss = "),
        ("轮，损失：", "epoch , loss :"),
        ("Validierungsverlust: ", "validation loss : "),
        ("pas ", "step "),
        ("pierdere ", "loss "),
        ("-> validare ", "-> validation "),
        ("Epok ", "epoch "),
        ("kayıp: ", "loss : "),
        ("verlies: ", "loss : "),
        ("walidacja: ", "validation : "),
        ("Nowy najlepszy ", "Nowy best "),
        ("Średni loss: ", "average loss: "),
        ("Епоха ", "epoch "),
        ("втрати: ", "loss : "),
        ("Crossval loss ", "validation loss "),
        ("Testgenauigkeit ", "Test accuracy "),
        ("Passo ", "step "),
        (", валидационные потери=", ", validation loss ="),
    ],
)
def test_words_of_a_training_are_read_in_english(text: str, meaning: str) -> None:
    assert " ".join(english(text.encode()).decode().split()) == " ".join(meaning.split())


def test_words_side_by_side_stay_one_name_behind_a_gap() -> None:
    """Two blanks part names, so none may come in between."""
    assert english(">>    验证损失: ".encode()) == b">>    validation loss : "


@pytest.mark.parametrize("text", ["train loss: ", "Zeitgeist ", "caf\u00e9 ", "\u2588\u2588| ", ""])
def test_other_words_stay(text: str) -> None:
    assert english(text.encode()) == text.encode()


def test_bytes_that_are_no_text_do_not_break_it() -> None:
    assert b"loss" in english(b"loss \xff\xfe: ")
