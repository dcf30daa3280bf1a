// Figure 2.2 of the CHANGE paper: UDP port 1500 is forwarded to a client.
FromNetfront() ->
IPFilter(allow udp port 1500) ->
IPRewriter(pattern - - 172.16.15.133 - 0 0)
-> TimedUnqueue(120,100)
-> ToNetfront()

REQUIRE reach 0/0 172.16.15.133 udp 1500
only 0/0 0/0 dst host 172.16.15.133 and udp
invariant netfront0 netfront0 src port
