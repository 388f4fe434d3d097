// The report's plots. It runs in the page, with uPlot before it; what it draws stands in the page as JSON.

/**
 * @typedef {{ name: string, values: number[], color: string }} Series
 * @typedef {{ id: string, stacked?: boolean, series: Series[] }} Plot
 * @typedef {{ times: number[], width: number, partial: [number, number][], plots: Plot[] }} Data
 */

const { uPlot } = /** @type {{ uPlot: typeof import('uplot') }} */ (/** @type {unknown} */ (window));
const data = /** @type {Data} */ (JSON.parse(document.getElementById('data')?.textContent ?? 'null'));
const begin = data.times[0] ?? 0;
const end = (data.times.at(-1) ?? 0) + data.width;

/** @param {string} name */
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {HTMLElement} element */
const sizeOf = (element) => ({ width: Math.max(280, element.clientWidth), height: 240 });

const axis = {
  stroke: () => color('--quiet'),
  grid: { stroke: () => color('--line'), width: 1 },
  ticks: { stroke: () => color('--line'), width: 1 },
};

/**
 * Ticks of the time's axis: days, or the time of day.
 * @param {number[]} ticks
 * @param {number} step
 */
function timeLabels(ticks, step) {
  return ticks.map((tick) => {
    const [date = '', time = ''] = new Date(tick * 1000).toISOString().split('T');
    return step >= 86_400 ? date : time.slice(0, step < 60 ? 8 : 5);
  });
}

/**
 * Shades the intervals of which the log covers a part only.
 * @param {uPlot} chart
 */
function shade({ ctx, bbox, valToPos }) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = color('--line');
  ctx.globalAlpha = 0.6;
  for (const [from, to] of data.partial) {
    const left = valToPos(from, 'x', true);
    ctx.fillRect(left, bbox.top, valToPos(to, 'x', true) - left, bbox.height);
  }
  ctx.restore();
}

/** @type {number | undefined} */
let pointed;

/**
 * A tap on a button takes the cursor off the plot.
 * @param {uPlot} chart
 */
function remember({ cursor: { idx } }) {
  if (idx !== null && idx !== undefined) pointed = (data.times[idx] ?? begin) + data.width / 2;
}

const bars = uPlot.paths.bars?.({ align: 1, size: [1, Infinity], gap: 0 });

const charts = data.plots.map(({ id, stacked = false, series }) => {
  const element = /** @type {HTMLElement} */ (document.getElementById(id));
  // The last is drawn from what is below it on; those below are then drawn over it.
  const sums = series.map(({ values }, n) =>
    stacked
      ? values.map((_, i) => series.slice(0, n + 1).reduce((sum, each) => sum + (each.values[i] ?? 0), 0))
      : values,
  );
  const order = series.map((_, n) => (stacked ? series.length - 1 - n : n));
  const chart = new uPlot(
    {
      ...sizeOf(element),
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), 'Etc/UTC'),
      cursor: { sync: { key: 'report' } },
      scales: {
        x: { range: (_, least, most) => [least, Math.min(end, most === data.times.at(-1) ? end : most)] },
        y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] },
      },
      axes: [
        { ...axis, space: 70, values: (_, ticks, __, ___, step) => timeLabels(ticks, step) },
        { ...axis, size: 60 },
      ],
      hooks: { drawAxes: [shade], setCursor: [remember] },
      series: [
        { label: 'UTC', value: '{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}' },
        ...order.map((n) => {
          const { name, color: own, values } = /** @type {Series} */ (series[n]);
          return {
            label: name,
            stroke: () => color(own),
            fill: () => (stacked ? color(own) : `color-mix(in srgb, ${color(own)} 20%, transparent)`),
            width: stacked ? 0 : 1.5,
            points: { show: !stacked && data.times.length < 3 },
            ...(stacked && bars ? { paths: bars } : {}),
            /** @type {(_: uPlot, __: number, ___: number, i: number | null) => string} */
            value: (_, __, ___, i) => (i === null ? '--' : (values[i] ?? 0).toLocaleString('en-US')),
          };
        }),
      ],
    },
    [data.times, ...order.map((n) => sums[n] ?? [])],
    element,
  );
  return { chart, element };
});

/** @type {{ [id: string]: number }} */
const ZOOMS = { in: 0.5, out: 2, all: Infinity };

/** @param {number} factor of the time that is shown; the middle is what was pointed at last, if it is shown */
function zoom(factor) {
  const [first] = charts;
  if (!first) return;
  const { min = begin, max = end } = first.chart.scales['x'] ?? {};
  const middle = pointed !== undefined && pointed >= min && pointed < max ? pointed : (min + max) / 2;
  const span = Math.max(3 * data.width, (max - min) * factor);
  const from = Math.max(begin, Math.min(end - span, middle - span / 2));
  for (const { chart } of charts) chart.setScale('x', { min: from, max: Math.min(end, from + span) });
}

for (const [id, factor] of Object.entries(ZOOMS)) {
  document.getElementById(id)?.addEventListener('click', () => zoom(factor));
}
document.querySelector('.zoom')?.removeAttribute('hidden');

addEventListener('resize', () => {
  for (const { chart, element } of charts) chart.setSize(sizeOf(element));
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const { chart } of charts) chart.redraw();
});
