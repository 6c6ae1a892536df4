"use strict";
const episodes = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const make = (tag, text, className) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};
const short = (number) => String(Number(number.toPrecision(5)));
let current = 0, step = 0, timer = null;

// Episodes
episodes.forEach((episode, index) => {
  const button = make("button");
  button.append(make("b", `Episode ${index + 1}`), make("small", `reward ${short(episode.total_reward)} · ${episode.n_env_steps} steps`));
  button.append(make("small", episode.outcome, episode.outcome === "failed" ? "failed" : ""));
  button.append(make("small", episode.seed === null ? "no seed" : `seed ${episode.seed}`));
  button.onclick = () => show(index, 0);
  byId("episodes").append(button);
});

function show(episodeIndex, stepIndex) {
  const changed = episodeIndex !== current || !byId("chart").firstChild;
  current = Math.max(0, Math.min(episodes.length - 1, episodeIndex));
  const episode = episodes[current];
  step = Math.max(0, Math.min(episode.steps.length - 1, stepIndex));
  if (changed) showEpisode(episode);
  showFrame(episode, episode.steps[step]);
  showDetails(episode, episode.steps[step]);
  byId("slider").value = step;
  byId("position").textContent = `${step} of ${episode.n_decisions}`;
  moveCursor();
  document.body.dataset.episode = current + 1;
  document.body.dataset.step = step;
}

function showEpisode(episode) {
  [...byId("episodes").children].forEach((button, index) => button.setAttribute("aria-current", index === current));
  byId("slider").max = episode.steps.length - 1;
  const notes = byId("notes");
  notes.replaceChildren();
  if (episode.error) notes.append(make("p", `The episode failed: ${episode.error}`, "note error"));
  if (episode.note) notes.append(make("p", episode.note, "note"));
  drawChart(episode);
}

function showFrame(episode, shown) {
  const has = shown.frame !== null;
  byId("frame").hidden = !has;
  byId("no-frame").hidden = has;
  if (has) byId("frame").src = episode.frames[shown.frame];
}

function table(rows) {
  const result = make("table");
  for (const [name, value] of rows) {
    const row = make("tr");
    row.append(make("td", name), make("td", value));
    result.append(row);
  }
  return result;
}

function showDetails(episode, shown) {
  const details = byId("details"), numbers = make("div", undefined, "numbers");
  const number = (name, value) => {
    const box = make("div");
    box.append(make("span", name), make("b", value));
    numbers.append(box);
  };
  number("environment step", String(shown.env_step));
  number("decides", shown.reward === null ? "the end" : shown.actor || "the policy");
  number("reward", shown.reward === null ? "–" : short(shown.reward));
  number("total so far", short(shown.total));
  details.replaceChildren(numbers);
  const section = (title, content) => details.append(make("h2", title), content);
  if (shown.reward !== null) section("Action", table(shown.action));
  if (shown.events.length) {
    const list = make("div");
    for (const [name, attributes] of shown.events) {
      const card = make("div", undefined, "event-card"), [group, event] = name.split("/");
      card.append(make("b", event.replaceAll("_", " ")), make("small", `  ${group}`), table(attributes));
      list.append(card);
    }
    section("Events", list);
  } else if (episode.steps.some((other) => other.events.length)) {
    section("Events", make("span", "none", "none"));
  }
  section("Observation", table(shown.observation));
}

// Reward and events over time
const svg = (tag, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const LEFT = 150, RIGHT = 10, TOP = 14, REWARD_HEIGHT = 78, ROW = 17, MAX_ROWS = 8;
let width = 800;
const xOf = (index, episode) => LEFT + (width - LEFT - RIGHT) * (index / Math.max(1, episode.steps.length - 1));

function eventRows(episode) {
  const rows = new Map();
  episode.steps.forEach((shown, index) => shown.events.forEach(([name]) => {
    if (!rows.has(name)) rows.set(name, []);
    rows.get(name).push(index);
  }));
  return [...rows].sort((a, b) => a[1].length - b[1].length).slice(0, MAX_ROWS);
}

function drawChart(episode) {
  const chart = byId("chart"), rows = eventRows(episode), decided = episode.steps.filter((shown) => shown.reward !== null);
  width = chart.clientWidth || 800;
  const height = TOP + REWARD_HEIGHT + 8 + rows.length * ROW + 4;
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.style.height = `${height}px`;
  chart.replaceChildren();
  const rewards = decided.map((shown) => shown.reward), totals = decided.map((shown) => shown.total);
  scale(chart, episode, rewards, (y, zero) => rewards.forEach((reward, index) => {
    if (!reward) return;
    const top = Math.min(y(reward), zero), bar = Math.max(1.5, (width - LEFT - RIGHT) / Math.max(1, episode.steps.length) - 1);
    chart.append(svg("rect", { class: reward < 0 ? "bar minus" : "bar", x: xOf(index, episode) - bar / 2, y: top, width: bar, height: Math.max(1, Math.abs(y(reward) - zero)) }));
  }));
  scale(chart, episode, totals, (y) => chart.append(svg("polyline", { class: "total", points: totals.map((total, index) => `${xOf(index, episode)},${y(total)}`).join(" ") })));
  const low = Math.min(0, ...totals), high = Math.max(0, ...totals);
  chart.append(svg("text", { x: 0, y: TOP + 4 }, `line: total, up to ${short(high)}`));
  chart.append(svg("text", { x: 0, y: TOP + REWARD_HEIGHT }, `down to ${short(low)}`));
  chart.append(svg("text", { x: 0, y: TOP + REWARD_HEIGHT / 2 + 4 }, `bars ${short(Math.min(0, ...rewards))} … ${short(Math.max(0, ...rewards))}`));
  rows.forEach(([name, indices], row) => {
    const y = TOP + REWARD_HEIGHT + 16 + row * ROW;
    chart.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
    chart.append(svg("text", { x: 0, y: y + 4 }, name.split("/")[1].replaceAll("_", " ").slice(0, 22)));
    indices.forEach((index) => chart.append(svg("circle", { class: "event", cx: xOf(index, episode), cy: y, r: 3 })));
  });
  chart.append(svg("line", { class: "cursor", id: "cursor", y1: 4, y2: height - 2 }));
}

function scale(chart, episode, values, draw) {
  const low = Math.min(0, ...values), high = Math.max(0, ...values), span = high - low || 1;
  const y = (value) => TOP + REWARD_HEIGHT * (high - value) / span;
  chart.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(0), y2: y(0) }));
  draw(y, y(0));
}

function moveCursor() {
  const cursor = byId("cursor"), x = xOf(step, episodes[current]);
  cursor.setAttribute("x1", x);
  cursor.setAttribute("x2", x);
}

// Moving about
function play(wanted) {
  clearInterval(timer);
  timer = null;
  if (wanted) {
    if (step === episodes[current].steps.length - 1) show(current, 0);
    timer = setInterval(() => {
      show(current, step + 1);
      if (step === episodes[current].steps.length - 1) play(false);
    }, 1000 / Number(byId("speed").value));
  }
  byId("play").textContent = timer ? "❚❚ Pause" : "▶ Play";
  document.body.dataset.playing = Boolean(timer);
}

const go = (to) => { play(false); show(current, to); };
byId("first").onclick = () => go(0);
byId("back").onclick = () => go(step - 1);
byId("next").onclick = () => go(step + 1);
byId("last").onclick = () => go(Infinity);
byId("play").onclick = () => play(!timer);
byId("slider").oninput = (event) => go(Number(event.target.value));
byId("speed").onchange = () => timer && play(true);
const drag = (event) => {
  const box = byId("chart").getBoundingClientRect(), along = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
  go(Math.round(along * (episodes[current].steps.length - 1)));
};
byId("chart").onpointerdown = drag;
byId("chart").onpointermove = (event) => event.buttons && drag(event);
addEventListener("resize", () => { drawChart(episodes[current]); moveCursor(); });
addEventListener("keydown", (event) => {
  const far = event.shiftKey ? 10 : 1;
  const actions = {
    ArrowLeft: () => go(step - far), ArrowRight: () => go(step + far), Home: () => go(0), End: () => go(Infinity),
    ArrowUp: () => { play(false); show(current - 1, 0); }, ArrowDown: () => { play(false); show(current + 1, 0); },
    " ": () => play(!timer),
  };
  if (!(event.key in actions) || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  event.preventDefault();
  actions[event.key]();
});
// A link may name the place: view.html#2/17 is decision 17 of episode 2.
const place = location.hash.slice(1).split("/").map(Number);
show((place[0] || 1) - 1, place[1] || 0);
play(false);
