# The command `maze` with everything that ships, on the CPU:
#   docker build -t maze .
#   docker run --rm -v "$PWD:/work" maze train experiment.toml
FROM python:3.12-slim

RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /maze
COPY constraints.txt ./
COPY maze_bc maze_bc
COPY maze_es maze_es
COPY maze_impala maze_impala
COPY maze_kernel maze_kernel
COPY maze_perception maze_perception
COPY maze_ppo maze_ppo
COPY maze_sac maze_sac
COPY plugins plugins
COPY examples/maze_hello examples/maze_hello
# maze_suite names all others, which lie here: nothing of Maze is downloaded. What needs Ray stays away (.dockerignore).
RUN uv pip install --system --no-cache --torch-backend cpu -c constraints.txt \
        ./maze_*/ ./plugins/*/ "gymnasium[classic-control]" \
    && maze list-plugins

RUN useradd --create-home --uid 1000 maze
USER 1000
WORKDIR /work
ENTRYPOINT ["maze"]
CMD ["--help"]
