in :: MemSource($TRACE, BURST 32, SECONDS $SECONDS);
out :: Discard;
in -> WifiDupeFilter -> WifiDecap -> out;
DriverManager(pause, print "out $(out.count) of $(in.count)");
