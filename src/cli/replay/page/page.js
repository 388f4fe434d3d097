// The report's plots. It runs in the page, with uPlot before it; what it draws stands in the page as JSON.

/**
 * @typedef {{ name: string, values: number[], color: string }} Series
 * @typedef {{ times: number[], plots: { id: string, series: Series[] }[] }} Data
 */

const { uPlot } = /** @type {{ uPlot: typeof import('uplot') }} */ (/** @type {unknown} */ (window));
const data = /** @type {Data} */ (JSON.parse(document.getElementById('data')?.textContent ?? 'null'));

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

const charts = data.plots.map(({ id, series }) => {
  const element = /** @type {HTMLElement} */ (document.getElementById(id));
  const chart = new uPlot(
    {
      ...sizeOf(element),
      tzDate: (time) => uPlot.tzDate(new Date(time * 1000), 'Etc/UTC'),
      cursor: { sync: { key: 'report' } },
      scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] } },
      axes: [
        { ...axis, space: 70, values: (_, ticks, __, ___, step) => timeLabels(ticks, step) },
        { ...axis, size: 70 },
      ],
      series: [
        { label: 'UTC', value: '{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}' },
        ...series.map((each) => ({
          label: each.name,
          stroke: () => color(each.color),
          fill: () => `color-mix(in srgb, ${color(each.color)} 20%, transparent)`,
          width: 1.5,
          points: { show: data.times.length < 3 },
        })),
      ],
    },
    [data.times, ...series.map(({ values }) => values)],
    element,
  );
  return { chart, element };
});

addEventListener('resize', () => {
  for (const { chart, element } of charts) chart.setSize(sizeOf(element));
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const { chart } of charts) chart.redraw();
});
