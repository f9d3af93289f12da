import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.EventComparator;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/**
 * The peer suite in Flink CEP: every combination (noSkip, followedByAny), event time, parallelism 1, in a local cluster.
 *
 * <p>Commands on stdin, one line each: {@code load FILE N} takes events as little-endian arrays (times, types, ids), and
 * {@code run CODES NEGATED WINDOW KEYED FILTERED} runs one pattern; each is answered by one JSON line. The time of a run is from
 * the first event to the end of the last match: starting and stopping the job is not counted, to Flink's advantage.
 *
 * <p>Events at one time are handed to the pattern with later slots first, so that two of them are never one after the other, and
 * a forbidden event at the time of the last one comes too late to forbid it.
 */
public final class SequencePatterns {
    private static final long MODULUS = (1L << 31) - 1;
    private static final long[] FACTORS = {1_000_003, 15_485_863, 179_424_673, 373_587_883, 982_451_653};

    // The job runs in threads of this process, one run at a time: what it reads and finds stays here, and is never serialised.
    private static long[] times;
    private static int[] types;
    private static long[] ids;
    private static volatile long began;
    private static volatile long ended;
    private static volatile long count;
    private static volatile long checksum;

    /** An event as Flink likes it: public fields, an empty constructor. */
    public static final class Event {
        public long row;
        public long ts;
        public int type;
        public long id;

        public Event() {}

        Event(long row) {
            this.row = row;
            ts = times[(int) row];
            type = types[(int) row];
            id = ids[(int) row];
        }
    }

    /** Events of one type. */
    private static final class OfType extends SimpleCondition<Event> {
        private final int type;

        OfType(int type) {
            this.type = type;
        }

        @Override
        public boolean filter(Event event) {
            return event.type == type;
        }
    }

    /** A watermark with every event: Flink has least to keep and sort that way, and is quickest. */
    private static final class AfterEveryEvent implements WatermarkGenerator<Event> {
        @Override
        public void onEvent(Event event, long time, WatermarkOutput output) {
            output.emitWatermark(new Watermark(time - 1));
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }

    /** Among events of one time, those of later slots first. */
    private static final class LaterSlotsFirst implements EventComparator<Event> {
        private final int[] slots = new int[1 << 10];

        LaterSlotsFirst(int[] codes) {
            Arrays.fill(slots, -1);
            for (int slot = 0; slot < codes.length; slot++) {
                slots[codes[slot]] = slot;
            }
        }

        @Override
        public int compare(Event left, Event right) {
            return Integer.compare(slots[right.type], slots[left.type]);
        }
    }

    /** Counts matches and adds up their checksums. */
    private static final class Tally extends PatternProcessFunction<Event, Long> {
        private final String[] names;
        private long matches;
        private long sum;

        Tally(String[] names) {
            this.names = names;
        }

        @Override
        public void open(OpenContext context) {
            matches = sum = 0;
        }

        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> out) {
            long mixed = 0;
            for (int place = 0; place < names.length; place++) {
                mixed += match.get(names[place]).get(0).row * FACTORS[place];
            }
            mixed %= MODULUS;
            sum += mixed * mixed % MODULUS;
            matches++;
        }

        @Override
        public void close() {
            ended = System.nanoTime();
            count = matches;
            checksum = sum;
        }
    }

    private static void load(String file, int n) throws Exception {
        times = new long[n];
        types = new int[n];
        ids = new long[n];
        try (FileChannel channel = FileChannel.open(Path.of(file))) {
            ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
            for (int row = 0; row < n; row++) {
                times[row] = bytes.getLong();
            }
            for (int row = 0; row < n; row++) {
                types[row] = bytes.getInt();
            }
            for (int row = 0; row < n; row++) {
                ids[row] = bytes.getLong();
            }
        }
    }

    private static Pattern<Event, Event> pattern(int[] codes, int negated, long window) {
        Pattern<Event, Event> pattern =
                Pattern.<Event>begin("s0", AfterMatchSkipStrategy.noSkip()).where(new OfType(codes[0]));
        for (int slot = 1; slot < codes.length; slot++) {
            String name = "s" + slot;
            pattern = slot == negated ? pattern.notFollowedBy(name) : pattern.followedByAny(name);
            pattern = pattern.where(new OfType(codes[slot]));
        }
        return pattern.within(Duration.ofMillis(window));
    }

    private static void run(int[] codes, int negated, long window, boolean keyed, boolean filtered) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, new Configuration());
        environment.getConfig().enableObjectReuse();
        began = ended = count = checksum = 0;
        boolean[] used = new boolean[1 << 10];
        for (int code : codes) {
            used[code] = true;
        }
        DataStream<Event> events =
                environment
                        .fromSequence(0, times.length - 1)
                        .map(
                                row -> {
                                    if (row == 0) {
                                        began = System.nanoTime();
                                    }
                                    return new Event(row);
                                })
                        .returns(Event.class)
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<Event>forGenerator(context -> new AfterEveryEvent())
                                        .withTimestampAssigner((event, before) -> event.ts));
        if (filtered) {
            events = events.filter(event -> used[event.type]);
        }
        if (keyed) {
            events = events.keyBy(event -> event.id);
        }
        String[] names = new String[codes.length - (negated < 0 ? 0 : 1)];
        for (int slot = 0, place = 0; slot < codes.length; slot++) {
            if (slot != negated) {
                names[place++] = "s" + slot;
            }
        }
        CEP.pattern(events, pattern(codes, negated, window), new LaterSlotsFirst(codes))
                .process(new Tally(names))
                .returns(Long.class)
                .print();
        environment.execute();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.trim().split(" ");
            if (words[0].equals("load")) {
                load(words[1], Integer.parseInt(words[2]));
                System.out.println("{}");
                continue;
            }
            int[] codes = Arrays.stream(words[1].split(",")).mapToInt(Integer::parseInt).toArray();
            run(codes, Integer.parseInt(words[2]), Long.parseLong(words[3]), words[4].equals("1"), words[5].equals("1"));
            System.out.printf(
                    "{\"seconds\": %.6f, \"count\": %d, \"checksum\": %d}%n", (ended - began) / 1e9, count, checksum);
        }
    }
}
