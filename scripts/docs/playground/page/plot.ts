// The time line of a lane, on a canvas: admitted requests up, denied requests down. Requests of the same pixels share a bar, so thousands of
// requests take as many strokes as the line has columns.
import { inWindowAt } from '../peak.js';
import type { Lane, Outcome } from '../core.js';

const HEIGHT = 112;
/** The line between admitted and denied requests. */
const BASE = 70;
const TOP = 14;
const BAR = 2;

type Ink = 'text' | 'admitted' | 'delayed' | 'denied' | 'limit' | 'peak' | 'clock';

/** The colours of the present theme. */
function inks(canvas: HTMLElement): Record<Ink, string> {
  const style = getComputedStyle(canvas);
  const names: readonly Ink[] = ['text', 'admitted', 'delayed', 'denied', 'limit', 'peak', 'clock'];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--pg-${name}`)])) as Record<
    Ink,
    string
  >;
}

/** The requests of each column. */
function columnsOf(
  { outcomes }: Lane,
  length: number,
  columns: number,
): Record<Outcome['kind'], Uint32Array> {
  const found = {
    admitted: new Uint32Array(columns),
    delayed: new Uint32Array(columns),
    denied: new Uint32Array(columns),
  };
  for (const { kind, at, end } of outcomes) {
    const time = kind === 'delayed' ? end : at;
    found[kind][Math.min(columns - 1, Math.floor((time / length) * columns))]! += 1;
  }
  return found;
}

/** Draws a lane. @returns the number of bars */
export function draw(
  canvas: HTMLCanvasElement,
  lane: Lane,
  length: number,
  selected: Outcome | undefined,
): number {
  const width = canvas.clientWidth || 600;
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = HEIGHT * scale;
  canvas.style.height = `${HEIGHT}px`;
  const context = canvas.getContext('2d')!;
  context.scale(scale, scale);
  context.font = '12px system-ui, sans-serif';
  const ink = inks(canvas);
  const x = (ms: number): number => (ms / length) * width;
  drawPeak(context, lane, x, ink);
  const bars = drawBars(context, lane, length, ink);
  drawUse(context, lane, length, ink);
  if (selected) drawClock(context, selected, x, ink);
  return bars;
}

type Context = CanvasRenderingContext2D;
type Inks = Readonly<Record<Ink, string>>;
type ToX = (ms: number) => number;

function drawBars(context: Context, lane: Lane, length: number, ink: Inks): number {
  const columns = Math.max(1, Math.floor(context.canvas.clientWidth / BAR));
  const { admitted, delayed, denied } = columnsOf(lane, length, columns);
  const most = Math.max(1, ...admitted.map((count, i) => count + delayed[i]!), ...denied);
  let bars = 0;
  const bar = (column: number, y: number, height: number): void => {
    if (height === 0) return;
    context.fillRect(column * BAR, y, BAR, height);
    bars += 1;
  };
  /** One request is visible beside many. */
  const high = (count: number, room: number): number =>
    count === 0 ? 0 : Math.max(4, (count / most) * room);
  const up = BASE - TOP - 8;
  context.fillStyle = ink.admitted;
  admitted.forEach((count, i) => bar(i, BASE - high(count, up), high(count, up)));
  context.fillStyle = ink.delayed;
  delayed.forEach((count, i) => bar(i, BASE - high(admitted[i]!, up) - high(count, up), high(count, up)));
  context.fillStyle = ink.denied;
  denied.forEach((count, i) => bar(i, BASE + 1, high(count, HEIGHT - BASE - 6)));
  return bars;
}

/** The units admitted in the window that ends at each time, for the key of the worst window; and the limit. */
function drawUse(context: Context, { peak }: Lane, length: number, ink: Inks): void {
  if (!peak) return;
  const top = Math.max(peak.units, peak.bound);
  const y = (units: number): number => BASE - (units / top) * (BASE - TOP);
  context.strokeStyle = ink.clock;
  context.globalAlpha = 0.7;
  context.beginPath();
  for (let column = 0; column <= context.canvas.clientWidth; column++)
    context.lineTo(
      column,
      y(inWindowAt(peak.starts, (column * length) / context.canvas.clientWidth, peak.window)),
    );
  context.stroke();
  context.globalAlpha = 1;
  context.strokeStyle = ink.limit;
  context.setLineDash([4, 3]);
  context.strokeRect(-1, y(peak.limit), context.canvas.clientWidth + 2, 0);
  context.setLineDash([]);
}

function drawPeak(context: Context, { peak }: Lane, x: ToX, ink: Inks): void {
  if (!peak) return;
  const from = x(Math.max(0, peak.end - peak.window));
  context.fillStyle = ink.peak;
  context.fillRect(from, TOP, Math.max(2, x(peak.end) - from), HEIGHT - TOP);
  const text = `${peak.units} in a window`;
  const room = context.canvas.clientWidth - context.measureText(text).width - 4;
  context.fillStyle = ink.text;
  context.fillText(text, Math.max(0, Math.min(from, room)), 11);
}

/** The clock, the wait of the selected request, and its Retry-After. */
function drawClock(context: Context, { at, end, retryAt }: Outcome, x: ToX, ink: Inks): void {
  context.fillStyle = ink.clock;
  context.fillRect(x(at) - 0.5, 0, 1, HEIGHT);
  context.fillStyle = ink.delayed;
  context.fillRect(x(at), BASE - 1, x(end) - x(at), 3);
  if (retryAt === undefined) return;
  context.strokeStyle = ink.denied;
  context.beginPath();
  context.moveTo(x(end), HEIGHT - 5);
  context.lineTo(x(retryAt), HEIGHT - 5);
  context.lineTo(x(retryAt), HEIGHT - 14);
  context.stroke();
}
