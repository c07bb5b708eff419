"""Stored bytes: as they are, smaller, or unreadable for others."""

from __future__ import annotations

import builtins
import os
import random
from typing import Any

import pytest

from statewright.errors import DamagedDatabase, InvalidConfig, WrongEncryptionKey
from statewright.storage.encryption import Encryptor

KEY = bytes(range(32))
LONG = b"what is said again " * 100
PLAIN = [b"", b"\x80", b"\xa5hello", LONG, random.Random(1).randbytes(2000).replace(b"\xc1", b"")]


def encryptors() -> list[Encryptor]:
    return [Encryptor(key, compress=compress) for key in (None, KEY) for compress in (False, True)]


@pytest.mark.parametrize("data", PLAIN, ids=len)
@pytest.mark.parametrize("compress", [False, True])
def test_what_was_closed_can_be_opened(data: bytes, compress: bool) -> None:
    assert [encryptor.decrypt(encryptor.encrypt(data, compress=compress)) for encryptor in encryptors()] == [data] * 4


def test_without_key_and_compression_bytes_are_stored_as_they_are() -> None:
    assert Encryptor().encrypt(LONG, compress=True) == LONG
    assert Encryptor(compress=True).encrypt(LONG) == LONG


def test_compressed_bytes_are_fewer_and_short_ones_are_left_alone() -> None:
    encryptor = Encryptor(compress=True)
    assert len(encryptor.encrypt(LONG, compress=True)) < len(LONG) / 10
    assert encryptor.encrypt(b"a" * 100, compress=True) == b"a" * 100
    assert len(Encryptor(KEY, compress=True).encrypt(LONG, compress=True)) < len(LONG) / 10


def test_whether_a_seal_compresses_does_not_matter_for_what_it_opens() -> None:
    assert Encryptor().decrypt(Encryptor(compress=True).encrypt(LONG, compress=True)) == LONG
    assert Encryptor(KEY).decrypt(Encryptor(KEY, compress=True).encrypt(LONG, compress=True)) == LONG


def test_encrypted_bytes_show_nothing_and_are_never_the_same() -> None:
    encryptor = Encryptor(KEY)
    first, second = encryptor.encrypt(b"secret"), encryptor.encrypt(b"secret")
    assert first != second
    assert b"secret" not in first + second
    assert (encryptor.encrypts, Encryptor().encrypts) == (True, False)


@pytest.mark.parametrize("size", [16, 24, 32])
def test_a_key_may_have_three_lengths(size: int) -> None:
    encryptor = Encryptor(os.urandom(size))
    assert encryptor.decrypt(encryptor.encrypt(b"x")) == b"x"


@pytest.mark.parametrize("size", [0, 1, 31, 33])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(InvalidConfig, match=f"key has {size} bytes"):
        Encryptor(bytes(size))


@pytest.mark.parametrize(
    ("encryptor", "said"), [(Encryptor(), "no key was given"), (Encryptor(bytes(32)), "key is wrong")]
)
def test_without_the_key_nothing_can_be_read(encryptor: Encryptor, said: str) -> None:
    with pytest.raises(WrongEncryptionKey, match=said):
        encryptor.decrypt(Encryptor(KEY).encrypt(b"secret"))


@pytest.mark.parametrize("cut", [2, 10, 14, 20, -1])
def test_encrypted_bytes_that_were_cut_short_are_refused(cut: int) -> None:
    stored = Encryptor(KEY).encrypt(b"secret")
    with pytest.raises(WrongEncryptionKey, match="the file is damaged"):
        Encryptor(KEY).decrypt(stored[:cut])


@pytest.mark.parametrize("place", [2, 13, 14, -1])
def test_encrypted_bytes_that_were_changed_are_refused(place: int) -> None:
    stored = bytearray(Encryptor(KEY).encrypt(b"secret"))
    stored[place] ^= 1
    with pytest.raises(WrongEncryptionKey):
        Encryptor(KEY).decrypt(bytes(stored))


def test_compressed_bytes_that_were_changed_are_damage() -> None:
    stored = Encryptor(compress=True).encrypt(LONG, compress=True)
    for damaged in (stored[:-5], stored[:2] + b"nothing", stored[:2]):
        with pytest.raises(DamagedDatabase, match="cannot be read"):
            Encryptor().decrypt(damaged)


def test_what_was_stored_before_there_was_a_key_stays_readable() -> None:
    assert Encryptor(KEY).decrypt(b"\xa5hello") == b"\xa5hello"


def test_encryption_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidConfig, match=r"statewright\[crypto\]"):
        Encryptor(KEY)
