"""Users, their tokens and keys, the construct ids that they claim, their budgets for judges."""

from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from backend.auth.credentials import Scope
from backend.schemas.base import RequestDocument, ResponseDocument, WholeNumber

NewPassword = Annotated[SecretStr, Field(min_length=8, max_length=1000)]


class Registration(RequestDocument):
    """A new user."""

    username: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    email: str = Field(
        max_length=254, pattern=r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+\.[^@\s\x00-\x1f]+$"
    )
    password: NewPassword
    invite: Annotated[SecretStr, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="an invite of the operator, where the service asks for one"
    )


class PasswordChange(RequestDocument):
    """A new password for the user who asks."""

    old_password: Annotated[SecretStr, Field(min_length=1, max_length=1000)]
    new_password: NewPassword


class RegisteredUser(ResponseDocument):
    """A registered user."""

    id: str
    username: str
    email: str


class PasswordGrant(RequestDocument):
    """The form of OAuth 2.0's password grant (RFC 6749 §4.3). Scope and client are not used."""

    username: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")
    password: Annotated[SecretStr, Field(min_length=1, max_length=1000)]
    grant_type: Literal["password", ""] = "password"
    scope: str = Field(default="", max_length=1000)
    client_id: str = Field(default="", max_length=1000)
    client_secret: Annotated[SecretStr, Field(max_length=1000)] = SecretStr("")


class AccessToken(ResponseDocument):
    """A token to send as `Authorization: Bearer`."""

    access_token: str
    token_type: Literal["bearer"]
    expires_in: int = Field(description="seconds")


class KeyRequest(RequestDocument):
    """A key to create."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")
    scopes: list[Scope] = Field(min_length=1, max_length=len(Scope))
    expires_in_days: WholeNumber = Field(ge=1, le=366)


class ApiKeyDocument(ResponseDocument):
    """A key without its secret."""

    id: str
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class NewApiKey(ApiKeyDocument):
    """A new key with its secret, which is shown once."""

    key: str


class ApiKeyPage(ResponseDocument):
    """Some keys of a user, the newest first."""

    keys: list[ApiKeyDocument]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


# Construct ids that users claim.


class ConstructRequest(RequestDocument):
    """A construct id that is claimed."""

    construct_id: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]
    author: (
        Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")] | None
    ) = None


class ConstructDocument(ResponseDocument):
    """A construct id that a user claims; runs count from when it is confirmed."""

    construct_id: str
    author: str | None
    created_at: datetime
    confirmed_at: datetime | None
    lapses_at: datetime | None = Field(
        description="when any user may claim it; null once it is confirmed"
    )


class ConstructPage(ResponseDocument):
    """Some construct ids that a user claims, the newest first."""

    constructs: list[ConstructDocument]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


# What a user's runs may spend on judges, and what is left of it.


BudgetUnit = Literal["micros", "tokens"]


class BalanceDocument(ResponseDocument):
    """An allowance in whole units, and where it has gone."""

    allowed: int = Field(ge=0)
    reserved: int = Field(ge=0, description="the most that calls under way can cost")
    spent: int = Field(ge=0)
    left: int = Field(ge=0, description="what a next call may cost")


class BudgetDocument(ResponseDocument):
    """A budget in one unit."""

    unit: BudgetUnit = Field(
        description="`micros`, millionths of the currency of the operator's prices, or `tokens`, "
        "of models that have no price"
    )
    total: BalanceDocument
    today: BalanceDocument = Field(description="of the day in UTC")
    per_run: int = Field(ge=0, description="what one run may spend")
    lost: int = Field(
        ge=0,
        description="of `total.spent`, the maxima of calls that lost their worker before they were "
        "settled",
    )


class Budgets(ResponseDocument):
    """A user's budgets; none where the operator has set none."""

    day: date
    budgets: list[BudgetDocument]
