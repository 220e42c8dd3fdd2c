"""The page that describes the service."""

import re

from fastapi.testclient import TestClient


def test_the_page_takes_its_scripts_and_styles_from_the_service_itself(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert any(asset.endswith(".js") for asset in assets)
    for asset in assets:
        assert asset.startswith("/"), f"{asset} is on another host"
        assert client.get(asset).status_code == 200
