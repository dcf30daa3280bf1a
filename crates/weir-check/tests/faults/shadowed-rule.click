// A rule stands behind one that leaves nothing for it.
FromNetfront(wan) -> CheckIPHeader
- -> IPFilter(deny udp dst port < 1024, allow udp dst port 53)
+ -> IPFilter(allow udp dst port 53, deny udp dst port < 1024)
-> ToNetfront(lan);

can wan lan udp dst port 53
