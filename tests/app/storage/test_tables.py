"""A column of sentences."""

from __future__ import annotations

from sqlalchemy import Column, MetaData, Table, Text, cast, create_engine, insert, select

from app.storage.tables import LocalizableText
from dragon.localizable import Localizable, localizable

TABLE = Table("sentences", MetaData(), Column("said", LocalizableText))


def test_a_sentence_comes_back_with_all_that_it_knows() -> None:
    sentence = localizable(
        "file.other", "It is {what}.", what=localizable("kind.gif", "a GIF image")
    )
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        TABLE.create(connection)
        connection.execute(insert(TABLE), [{"said": sentence}, {"said": "plain"}, {"said": None}])
        first, *rest = connection.scalars(select(TABLE.c.said)).all()
        assert isinstance(first, Localizable)
        assert (first, first.as_json()) == (sentence, sentence.as_json())
        assert rest == ["plain", None]
        # An older release shows the English first.
        assert str(connection.scalars(select(cast(TABLE.c.said, Text))).first()).startswith(
            sentence
        )
