// The time lines, the clock, and the request under it.
import type { Lane, Outcome, Simulation } from '../core.js';
import { h, labelled } from './dom.js';
import { draw } from './plot.js';
import { laneText, requestText } from './texts.js';

export interface Results {
  readonly element: HTMLElement;
  show(simulation: Simulation): void;
  /** Draws again, in another size or another theme. */
  redraw(): void;
}

/** The index of the request that is nearest to a time. */
function nearest(outcomes: readonly Outcome[], ms: number): number {
  let [low, high] = [0, outcomes.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (outcomes[middle]!.at < ms) low = middle + 1;
    else high = middle;
  }
  const before = outcomes[low - 1];
  return before && ms - before.at < outcomes[low]!.at - ms ? low - 1 : low;
}

/** @param responseOf the response to a request, as text */
export function createResults(responseOf: (outcome: Outcome) => string): Results {
  const rows = h('div', { className: 'lanes' });
  const clock = h('input', { type: 'range', min: '0', step: '1', value: '0' });
  const request = h('p', { className: 'request' });
  const response = h('pre', { tabIndex: 0, role: 'region', 'aria-label': 'Response to the request' });
  let shown: Simulation | undefined;
  let chosen = 0;
  let canvases: HTMLCanvasElement[] = [];

  const selected = (lane: Lane): Outcome | undefined => lane.outcomes[Number(clock.value)];

  const drawAll = (): void =>
    shown?.lanes.forEach((lane, i) => {
      const bars = draw(canvases[i]!, lane, shown!.length, selected(lane));
      canvases[i]!.dataset['bars'] = String(bars);
    });

  const look = (): void => {
    const lane = shown?.lanes[chosen];
    const outcome = lane && selected(lane);
    request.textContent = outcome ? `${lane.name}. ${requestText(outcome)}` : 'No request.';
    response.textContent = outcome ? responseOf(outcome) : '';
    clock.setAttribute('aria-valuetext', request.textContent);
    for (const [i, button] of rows.querySelectorAll('button').entries())
      button.setAttribute('aria-pressed', String(i === chosen));
    drawAll();
  };

  /** The pointer drags the clock along a line. */
  const follow = (event: PointerEvent, i: number): void => {
    const { left, width } = canvases[i]!.getBoundingClientRect();
    const { outcomes } = shown!.lanes[i]!;
    chosen = i;
    clock.value = String(nearest(outcomes, ((event.clientX - left) / width) * shown!.length));
    look();
  };

  const row = (lane: Lane, i: number): HTMLElement => {
    const choose = (): void => {
      chosen = i;
      look();
    };
    const canvas = h('canvas', { role: 'img', 'aria-label': `Time line of ${lane.name}. ${laneText(lane)}` });
    canvas.onpointermove = canvas.onpointerdown = (event) => follow(event, i);
    canvases.push(canvas);
    const name = h('button', { type: 'button', onclick: choose }, lane.name);
    return h('div', { className: 'lane', 'data-lane': lane.name }, name, h('p', {}, laneText(lane)), canvas);
  };

  clock.addEventListener('input', look);
  const legend = h(
    'p',
    { className: 'legend' },
    ...(['admitted', 'delayed', 'denied', 'peak', 'limit'] as const).map((name) =>
      h('span', { 'data-ink': name }, LEGEND[name]),
    ),
  );
  return {
    element: h(
      'section',
      { 'aria-label': 'Results' },
      legend,
      rows,
      labelled('Clock', clock, HINT),
      request,
      response,
    ),
    show(simulation) {
      shown = simulation;
      canvases = [];
      chosen = Math.min(chosen, simulation.lanes.length - 1);
      const { outcomes } = simulation.lanes[0]!;
      clock.max = String(Math.max(0, outcomes.length - 1));
      const denied = outcomes.findIndex(({ kind }) => kind === 'denied');
      clock.value = String(Math.max(0, denied));
      rows.replaceChildren(...simulation.lanes.map(row));
      look();
    },
    redraw: drawAll,
  };
}

const HINT = 'Drag it, use the arrow keys, or point at a time line.';

const LEGEND = {
  admitted: 'admitted',
  delayed: 'delayed',
  denied: 'denied',
  peak: 'worst window',
  limit: 'limit',
};
