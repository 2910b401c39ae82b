package fader;

import java.io.File;
import java.util.Map;
import java.util.TreeMap;
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;
import site.ycsb.generator.AcknowledgedCounterGenerator;
import site.ycsb.generator.ExponentialGenerator;
import site.ycsb.generator.HotspotIntegerGenerator;
import site.ycsb.generator.NumberGenerator;
import site.ycsb.generator.ScrambledZipfianGenerator;
import site.ycsb.generator.SkewedLatestGenerator;
import site.ycsb.generator.UniformLongGenerator;
import site.ycsb.generator.ZipfianGenerator;

/**
 * What others make of our logs and keys: {@code hlog FILE PERCENTILE...} prints each tag's count and
 * percentiles, {@code keys ITEMS DRAWS} how often YCSB's distributions draw each key.
 */
public final class Judge {
  private Judge() {
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments[0].equals("hlog")) {
      hlog(arguments);
    } else {
      keys(Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]));
    }
  }

  private static void hlog(String[] arguments) throws Exception {
    Map<String, Histogram> tags = new TreeMap<>();
    HistogramLogReader reader = new HistogramLogReader(new File(arguments[1]));
    while (reader.hasNext()) {
      EncodableHistogram interval = reader.nextIntervalHistogram();
      String tag = String.valueOf(interval.getTag());
      tags.computeIfAbsent(tag, name -> new Histogram(3)).add((Histogram) interval);
    }
    for (Map.Entry<String, Histogram> tag : tags.entrySet()) {
      StringBuilder line = new StringBuilder(tag.getKey() + " " + tag.getValue().getTotalCount());
      for (int at = 2; at < arguments.length; at++) {
        double percentile = Double.parseDouble(arguments[at]);
        line.append(' ').append(tag.getValue().getValueAtPercentile(percentile));
      }
      System.out.println(line);
    }
  }

  private static void keys(int items, int draws) {
    AcknowledgedCounterGenerator inserted = new AcknowledgedCounterGenerator(items);
    Map<String, NumberGenerator> generators = new TreeMap<>();
    generators.put("uniform", new UniformLongGenerator(0, items - 1));
    generators.put("zipfian", new ZipfianGenerator(items));
    generators.put("scrambled", new ScrambledZipfianGenerator(items));
    generators.put("latest", new SkewedLatestGenerator(inserted));
    generators.put("hotspot", new HotspotIntegerGenerator(0, items - 1, 0.2, 0.8));
    // Of the newest items back, as YCSB's workloads use it; what is beyond the oldest is drawn anew.
    generators.put("exponential", new ExponentialGenerator(95, items * 0.8571428571));
    for (Map.Entry<String, NumberGenerator> generator : generators.entrySet()) {
      long[] counts = new long[items];
      for (int drawn = 0; drawn < draws;) {
        long key = generator.getValue().nextValue().longValue();
        if (generator.getKey().equals("exponential")) {
          key = items - 1 - key;
        }
        if (0 <= key && key < items) {
          counts[(int) key]++;
          drawn++;
        }
      }
      StringBuilder line = new StringBuilder(generator.getKey());
      for (long count : counts) {
        line.append(' ').append(count);
      }
      System.out.println(line);
    }
  }
}
