"""What every table shares: naming, column types, and the declarative base."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from sqlalchemy import BigInteger, ColumnElement, DateTime, Enum, Identity, Interval, MetaData, String, func, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, MappedColumn, mapped_column

from farm.db.ids import new_id


class Base(DeclarativeBase):
    """Constraints are named by rule, so that migrations can name them too."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012  (SQLAlchemy reads it as a plain class attribute)
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB(none_as_null=True),
        list[dict[str, Any]]: JSONB(none_as_null=True),
        list[str]: ARRAY(String),
    }


Id = Annotated[str, mapped_column(String(26), primary_key=True, default=new_id)]
Serial = Annotated[int, mapped_column(BigInteger, Identity(), primary_key=True)]
Made = Annotated[datetime, mapped_column(server_default=func.now())]


def state_column(enum: type[StrEnum], default: StrEnum | None = None) -> MappedColumn[Any]:
    """A column of checked strings: unlike a native enum, its values can be changed under a busy farm."""
    kind = Enum(
        enum,
        native_enum=False,
        create_constraint=True,
        length=16,
        name=enum.__name__.lower(),
        values_callable=lambda e: [m.value for m in e],
    )
    return mapped_column(kind, server_default=default.value if default is not None else None)


def empty_list() -> MappedColumn[Any]:
    """An array column that is empty, never NULL, by default."""
    return mapped_column(server_default=text("'{}'"))


def empty_json() -> MappedColumn[Any]:
    """A JSONB object column that is empty, never NULL, by default."""
    return mapped_column(server_default=text("'{}'::jsonb"))


def seconds(value: float) -> ColumnElement[timedelta]:
    """An SQL interval."""
    return func.make_interval(0, 0, 0, 0, 0, 0, value, type_=Interval())
