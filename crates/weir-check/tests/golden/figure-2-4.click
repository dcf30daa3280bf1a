// Figure 2.4 of the CHANGE paper: the request of figure 2.2 on platform 3, and what becomes of a packet there.
FromNetfront() ->
IPFilter(allow udp port 1500) ->
IPRewriter(pattern - - 172.16.15.133 - 0 0)
-> TimedUnqueue(120,100)
-> ToNetfront()

REQUIRE reach 0/0 172.16.15.133 udp 1500
