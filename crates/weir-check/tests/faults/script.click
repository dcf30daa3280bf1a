// A script leads packets past the filter when the proof is long done. What it does then is not known; it must not pass.
// broken: inconclusive
FromNetfront(wan) -> CheckIPHeader -> way :: Switch(0);
way [0] -> IPFilter(allow udp) -> lan :: ToNetfront(lan);
way [1] -> lan;
- Script(wait 60s, write way.switch 1);

only wan lan udp
