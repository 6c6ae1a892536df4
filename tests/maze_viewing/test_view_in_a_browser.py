"""The page in headless Chromium: keys, slider and play move it, and a screenshot shows the frame."""

import re

import numpy as np
import pytest
from PIL import Image

SCRIPT = """
<script>
const press = (key, more = {}) => dispatchEvent(new KeyboardEvent("keydown", { key, ...more }));
const seen = [];
const note = () => seen.push(`${document.body.dataset.episode}/${document.body.dataset.step}`);
ACTIONS
document.title = seen.join(" ");
</script>
"""


def state_after(page, browser, actions):
    """The episode/step after each of the actions."""
    scripted = page.with_name("scripted.html")
    script = SCRIPT.replace("ACTIONS", "\n".join(f"{action}; note();" for action in actions))
    scripted.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{script}</body>"), encoding="utf-8")
    return re.search(r"<title>(.*?)</title>", browser(scripted, "--dump-dom"))[1].split()


@pytest.fixture
def page(maze, cutting):
    folder = cutting()
    maze("view", folder, "--draw", "dpi=60")
    return folder / "view.html"


@pytest.mark.slow
def test_keys_and_slider_move_the_page(page, browser):
    actions = {
        'press("ArrowRight")': "1/1",
        'press("ArrowRight") ': "1/2",
        'press("ArrowLeft")': "1/1",
        'press("End")': "1/6",
        'press("ArrowRight")  ': "1/6",
        'press("Home")': "1/0",
        'press("ArrowRight", { shiftKey: true })': "1/6",
        'press("ArrowDown")': "2/0",
        'press("ArrowUp")': "1/0",
        'byId("slider").value = 4; byId("slider").oninput({ target: byId("slider") })': "1/4",
        'byId("next").click()': "1/5",
        'byId("episodes").children[1].click()': "2/0",
    }
    assert state_after(page, browser, actions) == list(actions.values())


def test_play_runs_to_the_end_and_stops(page, browser):
    scripted = page.with_name("playing.html")
    text = page.read_text(encoding="utf-8")
    scripted.write_text(text.replace("</body>", '<script>byId("play").click();</script></body>'), encoding="utf-8")
    dom = browser(scripted, "--dump-dom")
    assert 'data-step="6"' in dom
    assert 'data-playing="false"' in dom


def test_a_link_names_the_place_and_the_details_stand_beside_the_frame(page, browser):
    dom = browser(page, "--dump-dom", place="1/1")
    assert 'data-step="1"' in dom
    details = re.sub(r"<[^>]+>", " ", dom.split('id="details"')[1].split("<script")[0])
    for text in ("cut_rotation", "valid cut", "CuttingEvents", "current_demand", "[60, 33]", "total so far"):
        assert text in details
    assert "Uncaught" not in dom


def test_a_screenshot_shows_frame_and_chart(page, browser, tmp_path):
    picture = tmp_path / "shot.png"
    browser(page, f"--screenshot={picture}", place="1/3")
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    assert pixels.shape == (900, 1400, 3)
    stage = pixels[60:560, 230:1050]
    blue = (abs(stage - np.array([176, 196, 222])).sum(axis=2) < 12).sum()
    assert blue > 1500, "the piece to cut, light steel blue, is drawn"
    assert (abs(pixels - np.array([37, 99, 201])).sum(axis=2) < 12).sum() > 1000, "the play button"
    assert (abs(pixels[300:, :1050] - np.array([26, 127, 75])).sum(axis=2) < 30).sum() > 20, "dots of events"
