// The outer source of a tunnel is checked; the inner packet may claim to come from anywhere.
FromNetfront(wan) -> CheckIPHeader -> IPFilter(allow src host 192.0.2.7 and ip proto 4 and not ip frag)
-> StripIPHeader -> CheckIPHeader
+ -> IPFilter(allow src net 10.7.0.0/16)
-> ToNetfront(lan);

only wan lan src net 10.7.0.0/16
