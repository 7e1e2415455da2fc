// The style sheet of the report. Colours are Okabe and Ito's, darkened for white paper and lightened for the dark;
// every line has a dash and a marker of its own as well.

#include "report.hpp"

namespace tern::study {

const char* const style_sheet = R"css(
:root { color-scheme: light dark;
  --paper: #ffffff; --panel: #f6f7f9; --ink: #16191d; --soft: #565f6a; --grid: #e2e6ea; --axis: #8d969f; --bar: #cfe0f1;
  --sequential: #6b7280; --vectorized: #0067a8; --cuda: #c44e00; --tf32: #00795a; --bf16: #9a3f7f;
  --b0: #2b1055; --b1: #4b1c7a; --b2: #6d2288; --b3: #8f2a81; --b4: #b0326f; --b5: #cc4158; --b6: #de5a3f; --b7: #dd7926; --b8: #c4900c; --b9: #9c9a00; }
@media screen and (prefers-color-scheme: dark) { :root {
  --paper: #15181c; --panel: #1d2126; --ink: #e9ecef; --soft: #a5aeb8; --grid: #30363d; --axis: #6c757f; --bar: #26435f;
  --sequential: #a3abb5; --vectorized: #58b4f0; --cuda: #ff8a3d; --tf32: #2fce9f; --bf16: #e58cc8;
  --b0: #8f9bff; --b1: #a58bff; --b2: #c081fb; --b3: #da7ae6; --b4: #ef7bc6; --b5: #fb84a1; --b6: #ff957c; --b7: #ffad5c; --b8: #f5c84c; --b9: #dbe35a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 28px 64px; max-width: 1340px; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1, h2, h3 { text-wrap: balance; }
h1 { font-size: 30px; line-height: 1.2; margin: 12px 0 4px; }
h2 { font-size: 23px; margin: 44px 0 6px; padding-top: 14px; border-top: 2px solid var(--ink); }
h3 { font-size: 17px; line-height: 1.35; margin: 0 0 4px; }
p, li { max-width: 78ch; } p { margin: 4px 0 10px; }
header p, figcaption p, .profile p { color: var(--soft); }
figcaption p, .profile p { font-size: 14px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(500px, 100%), 1fr)); gap: 22px; margin: 14px 0 26px; }
.profiles { grid-template-columns: repeat(auto-fit, minmax(min(590px, 100%), 1fr)); }
figure { margin: 0; padding: 14px 16px 8px; background: var(--panel); border-radius: 8px; display: flex; flex-direction: column; }
figcaption { flex: 1; }
svg { display: block; width: 100%; height: auto; font: 12.5px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.grid { stroke: var(--grid); } .axis { stroke: var(--axis); } .reference { stroke: var(--axis); stroke-dasharray: 2 3; }
.tick { fill: var(--soft); } .label { fill: var(--ink); } .name { fill: var(--line); font-weight: 600; }
.line { fill: none; stroke: var(--line); stroke-width: 2; stroke-linejoin: round; stroke-dasharray: var(--dash, none); }
.spread { stroke: var(--line); stroke-width: 1.2; opacity: .8; } .leader { stroke: var(--line); opacity: .45; }
.mark { fill: var(--line); stroke: var(--panel); stroke-width: 1; } .hollow { fill: var(--panel); stroke: var(--line); stroke-width: 1.6; }
.missing { stroke: var(--line); stroke-width: 2; fill: none; }
.sequential { --line: var(--sequential); --dash: 2 3; } .vectorized { --line: var(--vectorized); --dash: 8 3; }
.cuda { --line: var(--cuda); } .tf32 { --line: var(--tf32); --dash: 10 2 2 2; } .bf16 { --line: var(--bf16); --dash: 5 2; }
.b0 { --line: var(--b0); } .b1 { --line: var(--b1); } .b2 { --line: var(--b2); } .b3 { --line: var(--b3); } .b4 { --line: var(--b4); }
.b5 { --line: var(--b5); } .b6 { --line: var(--b6); } .b7 { --line: var(--b7); } .b8 { --line: var(--b8); } .b9 { --line: var(--b9); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; margin: 4px 0 24px; }
th, td { padding: 3px 12px 3px 0; text-align: right; vertical-align: top; border-bottom: 1px solid var(--grid); }
thead th { color: var(--soft); font-weight: 500; vertical-align: bottom; border-bottom: 1px solid var(--axis); }
th:first-child, .facts td, td.remark, thead th:last-child { text-align: left; } tbody th { font-weight: 600; white-space: nowrap; }
td.remark { min-width: 16em; color: var(--soft); } .cells td { white-space: nowrap; } .cells td.remark { white-space: normal; }
.profile { padding: 14px 16px 0; background: var(--panel); border-radius: 8px; } .profile table { font-size: 12.5px; width: 100%; margin-bottom: 14px; }
.profile th, .profile td { padding-right: 6px; white-space: nowrap; } .profile .track { width: 44px; margin-right: 4px; } .profile th:last-child, .profile td:last-child { text-align: right; }
em { font-style: normal; font-weight: 400; color: var(--soft); }
.bar { white-space: nowrap; } .track { display: inline-block; width: 110px; height: 10px; margin-right: 8px; background: var(--grid); border-radius: 2px; }
.figure { display: inline-block; min-width: 3.3em; }
.track i { display: block; height: 100%; background: var(--vectorized); border-radius: 2px; }
.key { display: inline-block; width: 10px; height: 10px; margin-right: 7px; border-radius: 2px; background: var(--line); }
code { font-size: 13px; overflow-wrap: anywhere; }
@media print { body { padding: 0; max-width: none; font-size: 11pt; } .figures { grid-template-columns: 1fr 1fr; gap: 10px; } .profiles { grid-template-columns: 1fr; }
  figure, tr, li, .profile { break-inside: avoid; } h2, h3 { break-after: avoid; } .wide { overflow: visible; } table { font-size: 8.5pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } .track { width: 60px; } th, td { padding-right: 7px; } }
)css";

}  // namespace tern::study
