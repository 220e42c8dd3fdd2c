"""Reads the reports of tools, which a change under judgement may have had a hand in."""

from xml.etree import ElementTree


def parsed_xml(content: bytes) -> ElementTree.Element | None:
    """The document's root; None where it is no XML, or declares entities, which reports have no use for."""
    if b"<!ENTITY" in content.upper():
        return None
    try:
        return ElementTree.fromstring(content)  # noqa: S314 - no entities, at most 16 MB
    except (ElementTree.ParseError, ValueError, LookupError):
        return None
