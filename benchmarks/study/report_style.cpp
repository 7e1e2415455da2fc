// The style sheet of the report, in addition to that of the charts (tools/chart/chart.css), which has the colours.

#include "report.hpp"

namespace tern::study {

const char* const style_sheet = R"css(
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
.profiles { grid-template-columns: repeat(auto-fit, minmax(min(620px, 100%), 1fr)); }
figure { margin: 0; padding: 14px 16px 8px; background: var(--panel); border-radius: 8px; display: flex; flex-direction: column; }
figcaption { flex: 1; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; margin: 4px 0 24px; }
th, td { padding: 3px 12px 3px 0; text-align: right; vertical-align: top; border-bottom: 1px solid var(--grid); }
thead th { color: var(--soft); font-weight: 500; vertical-align: bottom; border-bottom: 1px solid var(--axis); }
th:first-child, .facts td, td.remark, thead th:last-child { text-align: left; } tbody th { font-weight: 600; white-space: nowrap; }
td.remark { min-width: 16em; color: var(--soft); } .cells td { white-space: nowrap; } .cells td.remark { white-space: normal; }
.profile { padding: 14px 16px 0; background: var(--panel); border-radius: 8px; } .profile table { font-size: 12.5px; width: 100%; margin-bottom: 14px; }
.profile th, .profile td { padding-right: 6px; } .profile td { white-space: nowrap; } .profile tbody th { white-space: normal; overflow-wrap: anywhere; } .profile .track { width: 44px; margin-right: 4px; } .profile th:last-child, .profile td:last-child { text-align: right; }
em { font-style: normal; font-weight: 400; color: var(--soft); }
.bar { white-space: nowrap; } .track { display: inline-block; width: 110px; height: 10px; margin-right: 8px; background: var(--grid); border-radius: 2px; }
.figure { display: inline-block; min-width: 3.3em; }
.track i { display: block; height: 100%; background: var(--accent); border-radius: 2px; }
.key { display: inline-block; width: 10px; height: 10px; margin-right: 7px; border-radius: 2px; background: var(--line); }
code { font-size: 13px; overflow-wrap: anywhere; }
@media screen and (max-width: 1200px) { table { font-size: 13px; } th, td { padding-right: 8px; } td.remark { min-width: 9em; } }
@media print { body { padding: 0; max-width: none; font-size: 11pt; } .figures { grid-template-columns: 1fr 1fr; gap: 10px; } .profiles { grid-template-columns: 1fr; }
  figure, tr, li, .profile { break-inside: avoid; } h2, h3 { break-after: avoid; } .wide { overflow: visible; } table { font-size: 8.5pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } .track { width: 60px; } th, td { padding-right: 7px; } }
)css";

}  // namespace tern::study
