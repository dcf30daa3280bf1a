// From outside, only the server at port 8080 is to be reached. The NAT gives that port to clients too, and what comes to
// it from where such a client has sent to passes as an answer.
- nat :: IPRewriter(pattern 192.0.2.1 8000-8999 - - 0 1, pattern - - 10.0.0.9 80 1 0);
+ nat :: IPRewriter(pattern 192.0.2.1 9000-9999 - - 0 1, pattern - - 10.0.0.9 80 1 0);
FromNetfront(lan) -> CheckIPHeader -> IPFilter(allow udp and ip hl 5) -> nat -> ToNetfront(wan);
FromNetfront(wan) -> CheckIPHeader -> IPFilter(allow dst host 192.0.2.1 and udp dst port 8080 and ip hl 5)
    -> [1] nat [1] -> ToNetfront(lan);

only wan lan dst host 10.0.0.9
