#include "metrics/reading.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace sluice::metrics {
namespace {

Reading read(const std::string& text) {
  auto reading = Reading::parse(text);
  EXPECT_TRUE(reading.has_value()) << text << ": " << reading.error().message;
  return reading ? std::move(*reading) : Reading();
}

TEST(MetricsReading, ReadsWhatWeServeOurselves) {
  Families families;
  families.counter("sluice_a_total", "Help.", 7, {{"kind", "x\"\\\ny"}});
  families.gauge("sluice_b", "Other.", 0.5);
  families.histogram("sluice_c_seconds", "Times.",
                     {.bounds = {0.5, 1}, .counts = {2, 0, 3}, .sum = 9.5}, {{"role", "x"}});
  const Reading reading = read(families.text());
  EXPECT_EQ(reading.sum("sluice_a_total"), 7);
  EXPECT_EQ(reading.samples().front().label("kind"), "x\"\\\ny");
  EXPECT_EQ(reading.sum("sluice_b"), 0.5);
  const Buckets buckets = reading.histogram("sluice_c_seconds");
  EXPECT_EQ(buckets.counts, (std::vector<double>{2, 2, 5}));
  EXPECT_TRUE(std::isinf(buckets.bounds.back()));
}

TEST(MetricsReading, TakesEveryFormOfALine) {
  const Reading reading = read(
      "# a comment\n"
      "\n"
      "# TYPE a counter\n"
      "a 1\n"
      "a{} 2\n"
      "a{b=\"c\"} 3 1700000000000\n"
      "a{b=\"c\",d=\"e\",} +4\n"
      "a { b = \"c\" , d = \"e\" }\t5e0\n"
      "a:b_c9 -0.25\n");
  EXPECT_EQ(reading.samples().size(), 6u);
  EXPECT_EQ(reading.sum("a"), 15);
  EXPECT_EQ(reading.sum("a", [](const Sample& s) { return s.label("d") == "e"; }), 9);
  EXPECT_EQ(reading.sum("a:b_c9"), -0.25);
  EXPECT_EQ(reading.sum("absent"), 0);
  EXPECT_TRUE(reading.has("a"));
  EXPECT_FALSE(reading.has("absent"));
}

TEST(MetricsReading, NumbersThatAreNoneDoNotSpoilASum) {
  const Reading reading = read("a NaN\na +Inf\na -Inf\na 1\nb 1.7976931348623157e308\nb 1e308\n");
  EXPECT_EQ(reading.samples().size(), 6u);
  EXPECT_EQ(reading.sum("a"), 1);
  EXPECT_GT(reading.sum("b"), 1e308);
}

TEST(MetricsReading, RefusesWhatIsNotWhole) {
  for (const std::string text : {
           "a 1",               // the text ends inside a line
           "a 1\nb 2",          //
           "a\n",               // no number
           "a \n",              //
           "a x\n",             //
           "a 1x\n",            //
           "a 0x10\n",          //
           "a nan\n",           // not the format's spelling
           "a inf\n",           //
           "a infinity\n",      //
           "a +-1\n",           //
           "a --1\n",           //
           "a 1e999\n",         // beyond a double
           "a 1e\n",            //
           "9a 1\n",            // no name
           " a 1\n",            //
           "{a=\"b\"} 1\n",     //
           "a-b 1\n",           //
           "a 1 2 3\n",         // more behind the time
           "a 1 2.5\n",         //
           "a 1\r\n",           //
           "a{b} 1\n",          // labels that are none
           "a{b=c} 1\n",        //
           "a{b=\"c} 1\n",      //
           "a{b=\"c\" 1\n",     //
           "a{b=\"c\"\n",       //
           "a{=\"c\"} 1\n",     //
           "a{b:c=\"d\"} 1\n",  //
           "a{,} 1\n",          //
           "a{b=\"1\"c=\"2\"} 1\n",
           "a{b=\"1\",b=\"2\"} 1\n",
           "a{b=\"\\t\"} 1\n",  // an escape that is none
           "a{b=\"\\\"} 1\n",   //
           "# TYPE a guess\n",  //
           "# TYPE a\n",        //
           "# TYPE \n",         //
       }) {
    const auto reading = Reading::parse(text);
    ASSERT_FALSE(reading.has_value()) << text;
    EXPECT_EQ(reading.error().code, Code::kInvalidArgument) << text;
    EXPECT_NE(reading.error().message.find("line "), std::string::npos) << text;
  }
}

TEST(MetricsReading, HasBounds) {
  const std::string long_word(kReadWordBytesMax + 1, 'x');
  std::string labels, samples;
  for (std::size_t i = 0; i <= kReadLabelsMax; ++i) labels += "l" + std::to_string(i) + "=\"\",";
  for (std::size_t i = 0; i <= kReadSamplesMax; ++i) samples += "a 1\n";
  for (const std::string& text :
       {long_word + " 1\n", "a{b=\"" + long_word + "\"} 1\n", "a{" + long_word + "=\"\"} 1\n",
        "a{" + labels + "} 1\n", samples, std::string(kReadBytesMax + 1, '\n')}) {
    const auto reading = Reading::parse(text);
    ASSERT_FALSE(reading.has_value()) << text.substr(0, 80);
    EXPECT_EQ(reading.error().code, Code::kLimit) << text.substr(0, 80);
  }
}

TEST(MetricsReading, HistogramsOfSeveralSeriesAreAddedUp) {
  const Reading reading = read(
      "h_bucket{e=\"0\",le=\"0.1\"} 1\nh_bucket{e=\"0\",le=\"+Inf\"} 2\n"
      "h_bucket{e=\"1\",le=\"0.1\"} 10\nh_bucket{e=\"1\",le=\"+Inf\"} 20\n");
  EXPECT_EQ(reading.histogram("h").counts, (std::vector<double>{11, 22}));
  const auto first = [](const Sample& sample) { return sample.label("e") == "0"; };
  EXPECT_EQ(reading.histogram("h", first).counts, (std::vector<double>{1, 2}));
}

TEST(MetricsReading, BucketsThatCannotBeAreNoHistogram) {
  for (const std::string text : {
           "h_bucket{le=\"1\"} 5\nh_bucket{le=\"+Inf\"} 4\n",    // falls
           "h_bucket{le=\"1\"} 5\n",                             // has no end
           "h_bucket{le=\"x\"} 5\nh_bucket{le=\"+Inf\"} 5\n",    // no bound
           "h_bucket{le=\"NaN\"} 5\nh_bucket{le=\"+Inf\"} 5\n",  //
           "h_bucket{le=\"1\"} NaN\nh_bucket{le=\"+Inf\"} 5\n",  // no count
           "h_bucket 5\n",                                       //
       }) {
    EXPECT_TRUE(read(text).histogram("h").bounds.empty()) << text;
  }
}

TEST(MetricsReading, NoTextOfTheFormatTakenApartByHandCrashesIt) {
  // Every prefix, and every single byte replaced, of a page that has everything.
  const std::string page = "# TYPE a counter\na{b=\"c\\\\\\\"\\n\",d=\"e\"} 1.5e3 17\nb NaN\n";
  for (std::size_t n = 0; n < page.size(); ++n) {
    const auto cut = Reading::parse(page.substr(0, n));
    EXPECT_EQ(cut.has_value(), n == 0 || page[n - 1] == '\n') << n;
    for (int c = 0; c < 256; ++c) {
      std::string changed = page;
      changed[n] = static_cast<char>(c);
      if (const auto reading = Reading::parse(changed)) {
        EXPECT_LE(reading->samples().size(), 3u);
      } else {
        EXPECT_FALSE(reading.error().message.empty());
      }
    }
  }
}

}  // namespace
}  // namespace sluice::metrics
