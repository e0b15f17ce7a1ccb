"""The page of `report.py`: its frame and its look, light or dark as the reader's system has it."""

from string import Template

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Published experiments, run again</title>
<style>
:root {
  color-scheme: light dark;
  --back: #ffffff; --text: #1f2328; --quiet: #59636e; --line: #d1d9e0; --link: #0757b8; --panel: #f6f8fa;
  --good: #1a7f37; --good-back: #dafbe1; --bad: #b3261e; --bad-back: #ffe3e0; --plain-back: #eaeef2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12161c; --text: #e6e9ed; --quiet: #9aa4b0; --line: #323a44; --link: #79b8ff; --panel: #1a2029;
    --good: #56d364; --good-back: #12351d; --bad: #ff8d84; --bad-back: #46181a; --plain-back: #2a313b;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 2.5rem 1.5rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.35rem; margin: 0 0 .5rem; }
h2 .id { color: var(--quiet); font-weight: 500; margin-right: .35rem; }
p { max-width: 52rem; margin: .5rem 0; }
a { color: var(--link); }
code { font: .86em/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
section { margin-top: 3.5rem; padding-top: 2rem; border-top: 1px solid var(--line); }
.quiet { color: var(--quiet); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .32rem .9rem .32rem 0; font-weight: 400; }
thead th { color: var(--quiet); font-size: .82rem; border-bottom: 1px solid var(--line); }
tbody tr.first > * { border-top: 1px solid var(--line); }
tbody tr:first-child > * { border-top: none; }
.claims td:nth-child(n+4) { white-space: nowrap; }
.overview td { border-top: 1px solid var(--line); }
.count { text-align: right; padding-right: 1.6rem; }
.chip { display: inline-block; padding: 0 .55rem; border-radius: 1rem; white-space: nowrap; }
.chip.reported { background: var(--plain-back); }
.chip.reached { color: var(--good); background: var(--good-back); }
.chip.missed, .chip.not-measured { color: var(--bad); background: var(--bad-back); }
.why { background: var(--panel); border-left: 3px solid var(--bad); padding: .4rem 1.1rem; margin: 1rem 0; }
.why ul { margin: .3rem 0 .5rem; padding-left: 1.2rem; }
.files { max-width: none; }
.files a { margin-right: 1rem; white-space: nowrap; }
figure { margin: 1.4rem 0; }
figure svg { width: 100%; max-width: 68rem; height: auto; display: block; }
details { margin-top: .8rem; }
summary { cursor: pointer; color: var(--link); }
.runs { font-size: .85rem; color: var(--quiet); }
.runs li { margin: .35rem 0; }
</style>
</head>
<body>
<main>
<h1>Published experiments, run again</h1>
<p>Each experiment states what was published and the band in which our own value must lie. A band that names a
requirement comes from the specification; the others are ours, set while the experiment was being built.
A verdict is about the mean over several seeds; <em>reached?</em> or <em>missed?</em> means that its 95 % confidence
interval reaches over the end of the band, so that other seeds may give the other verdict. <em>Reported</em> values have
no band. Everything here is computed from the Parquet that the runs left, which is linked below each experiment.</p>
<div class="wide"><table class="overview">
<thead><tr><th>experiment</th><th></th><th>scale</th><th class="count">reached</th><th class="count">missed</th>
<th class="count">reported</th><th class="count">failed runs</th></tr></thead>
<tbody>
$overview
</tbody></table></div>
$sections
<section id="planned">
<h2>Not built yet</h2>
<details><summary>$waiting experiments wait for a part that is not there</summary>
<div class="wide"><table>
<thead><tr><th>experiment</th><th></th><th>asks</th><th>waits for</th></tr></thead>
<tbody>
$planned
</tbody></table></div></details>
</section>
</main>
</body>
</html>
""")
