"""Words of a training in other languages -> English, so that lines are named by the same rules everywhere.

Only the words that rules look for are translated: loss, step, epoch, accuracy, learning rate, the sets, and the
signs of full width between them. What a pattern matches stays as the log prints it.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

_WORDS: dict[str, str] = {  # English -> how others write it, as a regex
    "learning rate": "学习率|學習率|学習率|학습률|lernrate|taux d.apprentissage|tasa de aprendizaje"
    "|taxa de aprendizado|tasso di apprendimento|rat[ae] de [îi]nv[ăa][țţt]are|wsp[óo][łl]czynnik uczenia"
    "|öğrenme oranı|leersnelheid|скорость обучения|швидкість навчання",
    "total loss": "总损失值|总损失|總損失|总体损失|総損失|合計損失|総ロス|合計ロス|トータルロス"
    "|전체 ?손실|총 ?손실|총 ?로스"
    "|gesamtverlust|pertes? totales?|p[ée]rdida total|perda total|perdita totale"
    "|общ\\w+ потер[яьи]|общ\\w+ лосс|суммарн\\w+ потер[яьи]|суммарн\\w+ лосс",
    "cross entropy": "交叉熵|クロスエントロピー|교차 ?엔트로피|kreuzentropie"
    "|entropie crois[ée]e|entrop[íi]a cruzada"
    "|кросс[- ]?энтропи[яи]",
    "total": "总(?= ?loss)|總(?= ?loss)|総(?= ?loss)|총(?= ?loss)|всего|итого|合計|合计|总计|總計|总和|총합|합계",
    "loss": "损失函数值|损失值|损失|損失値|損失值|損失|ロス|손실값|손실|로스|verlust|pertes?|p[ée]rdida"
    "|perdas?|perdita|pierderea?|kayıp|kaybı|verlies|förlust"
    "|функция потерь|потер[яьи]|лосс|втрат[аи]",
    "step": "步数|步數|步骤|步|ステップ|스텝|schritt|[ée]tape|paso|passo|pas|krok|adım|stap|steg|шаг|крок",
    "iteration": "迭代次数|迭代|疊代|反復|イテレーション|it[ée]ration|iteraci[oó]n|itera[țţ]ia"
    "|iteracja|iterasyon|iteratie|итерация|ітерація",
    "epoch": "轮次|轮数|轮|輪次|輪|エポック|에포크|에폭|epoche|[ée]poque|[ée]poca|epoc[ăa]"
    "|epoka|epok|эпоха|епоха",
    "batch": "批次|バッチ|배치|lote|батч",
    "accuracy": "准确率|準確率|正确率|正確度|准确度|正確率|正解率|精度|정확도|genauigkeit|exactitude|exactitud"
    "|acur[áa]cia|accuratezza|acurate[țţt]ea?|dokładność|doğruluk|nauwkeurigheid|noggrannhet"
    "|точност[ьи]|точність",
    "validation": "验证集|验证|驗證集|驗證|検証|검증|validierung\\w*|validaci[oó]n|valida[çc][ãa]o"
    "|validazione|validare|walidacj[aei]|walidacyjn\\w+|doğrulama|validatie|валідаці[яії]"
    "|валидаци[яиюей]+|валидационн\\w+|проверочн\\w+"
    "|(?:held|hold)[- ]?out(?!\\w)|cross[- ]?val(?:idation)?(?!\\w)",
    "test": "测试集|测试|測試|テスト|테스트|тестов\\w+|тест",
    "training": "训练集|训练|訓練|学習|훈련|학습|trainings|entra[îi]nement|entrenamiento"
    "|treinamento|addestramento|antrenare|treningow\\w+|eğitim|навчання|обучени[яеию]+|обучающ\\w+|тренировочн\\w+",
    "average": "平均|평균|durchschnittliche?r?|moyenne|[śs]redni[ae]?|средн\\w+",
    "time": "耗时|耗時|用时|用時|时间|時間|시간|zeit|temps|tiempo|время",
    "best": "最佳|最优|最優|最好|最良|最高|最低|최고|최적|bester?|meilleure?|mejor|najleps\\w+|лучш\\w+",
    "minimum": "最小值?(?=损失|損失|ロス|验证)|最小の?(?=検証|損失|ロス)|최소 ?(?=검증|손실|로스)"
    "|kleinste[rs]?|niedrigste[rs]?|минимальн\\w+"
    "|наименьш\\w+|m[íi]nim[ao]",
    "saving": "保存|저장|gespeichert|enregistr\\w+|guardad\\w+|сохран\\w+",
    "current": r"当前(?=[\s:：=]*$)|當前(?=[\s:：=]*$)|現在(?=[\s:：=]*$)|현재(?=[\s:：=]*$)|текущ\w+(?=[\s:=]*$)",
    "": "当前|當前|目前|現在の|현재|第|aktuelle?r?|текущ\\w+",
}
# `Validierungsverlust` is `validation loss`; the first part must stay a word of its own.
_COMPOUND = re.compile(r"(?i)\b(validierungs|trainings|test)(?=verlust|genauigkeit)")
# `损失为: 2.5`, `ロスは 2.5`, behind a word that is known
_PARTICLE = re.compile(r"(?<=[a-z])\0+(?:为|為|是|は|이|가|은|는)(?![^\W\d_])")
_SIGNS = str.maketrans("：，；（）｜。、＝【】％／", ":,;()|.,=[]%/")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LATIN = r"(?<![^\W\d_])(?:%s)(?![^\W\d_])"


@cache
def _pattern(is_ascii: bool) -> re.Pattern[str]:
    """A group for each English word. Of an ASCII text, only words in Latin letters are looked for."""
    groups = []
    for number, words in enumerate(_WORDS.values()):
        apart = [word for word in words.split("|") if word[0].isascii() or "а" <= word[0] <= "я"]
        glued = [] if is_ascii else [word for word in words.split("|") if word not in apart]
        spaced = [word for word in apart if word[0].isascii()] if is_ascii else apart
        forms = ([_LATIN % "|".join(spaced)] if spaced else []) + glued
        groups += [f"(?P<w{number}>{'|'.join(forms)})"] if forms else []
    return re.compile("|".join(groups), re.IGNORECASE)


_ENGLISH = tuple(_WORDS)


@lru_cache(maxsize=4096)
def _is_english(alike: bytes) -> bool:
    """Whether an ASCII text, whose digits were made alike, has no known word of another language."""
    read = alike.decode()
    return not (_COMPOUND.search(read) or _pattern(True).search(read))


@lru_cache(maxsize=4096)
def english(text: bytes) -> bytes:
    """The text with known words in English; others stay."""
    if text.isascii() and _is_english(text.translate(_ZEROS)):
        return text
    read = _COMPOUND.sub(r"\1 ", text.decode(errors="replace"))
    foreign = _pattern(read.isascii())
    if not foreign.search(read):
        return text if read.isascii() else read.translate(_SIGNS).encode()
    spoken = foreign.sub(
        lambda word: f"\0{_ENGLISH[int((word.lastgroup or 'w0')[1:])]}\0", read.translate(_SIGNS)
    )
    spoken = _PARTICLE.sub("\0", spoken)
    spoken = re.sub(r"\0+", " ", re.sub(r"(?<=\s)\0+|\0+(?=\s)", "", spoken))
    return (spoken if read[:1].isspace() else spoken.lstrip()).encode()
