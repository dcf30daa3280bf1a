// Later fragments have no ports, so a rule that denies ports lets them through.
FromNetfront(wan) -> CheckIPHeader
- -> IPFilter(deny tcp dst port < 1024, allow all)
+ -> IPFilter(allow tcp dst port >= 1024, deny tcp, allow all)
-> ToNetfront(lan);

never wan lan tcp and not tcp dst port >= 1024
