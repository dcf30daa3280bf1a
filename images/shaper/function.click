// Large packets of senders on the same machine are cut first: one of 64 KB would wait as one frame.
in_0 -> FinishOffloads -> queue :: Queue($QUEUE) -> limit :: BandwidthRatedUnqueue($RATE) -> out_1;
in_1 -> FinishOffloads -> return_queue :: Queue($QUEUE) -> return_limit :: BandwidthRatedUnqueue($RETURN_RATE) -> out_0;
