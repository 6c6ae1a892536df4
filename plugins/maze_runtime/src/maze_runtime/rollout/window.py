"""A window for the pictures of environments that open none themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.errors import RequestError

FRAMES_PER_SECOND = 30
TITLE = "Maze"


class Window:
    """Shows one picture after the other, at most `FRAMES_PER_SECOND` a second. Closed windows stay closed.

    Raises:
        RequestError: pygame is not installed, or there is no screen.
    """

    def __init__(self) -> None:
        try:
            import pygame
        except ImportError as error:
            raise RequestError(
                "a window needs pygame, which is not installed", help="pip install 'maze-runtime[window]'"
            ) from error
        self._pygame: Any = pygame
        self._surface: Any = None
        self._is_closed = False
        self._clock: Any = None

    def show(self, picture: np.ndarray) -> None:
        """Show a picture, (H, W, 3) bytes."""
        if self._is_closed:
            return
        pygame, size = self._pygame, (picture.shape[1], picture.shape[0])
        if self._surface is None or self._surface.get_size() != size:
            self._open(size)
        self._surface.blit(pygame.surfarray.make_surface(np.swapaxes(picture, 0, 1)), (0, 0))
        pygame.display.flip()
        self._clock.tick(FRAMES_PER_SECOND)
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            self.close()
            self._is_closed = True

    def close(self) -> None:
        """Close the window, if it is open."""
        if self._surface is not None:
            self._pygame.display.quit()
            self._surface = None

    def _open(self, size: tuple[int, int]) -> None:
        try:
            self._pygame.display.init()
            self._surface = self._pygame.display.set_mode(size)
        except self._pygame.error as error:
            raise RequestError(f"no window can be opened: {error}", help="write films instead: --video DIR") from error
        self._pygame.display.set_caption(TITLE)
        self._clock = self._pygame.time.Clock()
