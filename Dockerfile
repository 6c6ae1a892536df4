# The command `maze` with everything that ships, on the CPU:
#   docker build -t maze .
#   docker run --rm -v "$PWD:/work" maze train experiment.toml
FROM python:3.12-slim

RUN pip install --no-cache-dir uv
COPY constraints.txt /maze/
COPY maze_bc /maze/maze_bc
COPY maze_es /maze/maze_es
COPY maze_impala /maze/maze_impala
COPY maze_kernel /maze/maze_kernel
COPY maze_perception /maze/maze_perception
COPY maze_ppo /maze/maze_ppo
COPY maze_sac /maze/maze_sac
COPY plugins /maze/plugins
# maze_suite names all others but those on Ray, and finds them here: nothing of Maze is downloaded.
RUN cd /maze \
    && uv pip install --system --no-cache --torch-backend cpu -c constraints.txt \
        $(ls -d ./maze_*/ ./plugins/*/ | grep -v -e maze_ray -e maze_rllib) "gymnasium[classic-control]" \
    && maze list-plugins

RUN useradd --create-home maze
USER maze
WORKDIR /work
ENTRYPOINT ["maze"]
CMD ["--help"]
