// Threads that write to logs, read them, and let go of them in every order, for the sanitizers.
//
//   log_driver ROUNDS THREADS
//
// Each round is one log: the thread that asked for it starts steps on all writers, reads while they
// write, and lets go of it before, while or after they end. Half of the ops are handed to another
// thread in the middle, as asynchronous kernels are. What is read must be a log in which every
// record says what was written to it: names, states, outputs and devices agree.

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <thread>

#include "log.h"

namespace {

class Record final : public stepscope::Entry<Record> {
 public:
  virtual ~Record() = default;  // TensorFlow's has virtual functions
  static uint32_t ThreadHandle() { return static_cast<uint32_t>(gettid()); }
};

class TestLog final : public stepscope::Log<Record> {
 public:
  using Log::Log;
};

#define CHECK(what)                                                   \
  do {                                                                \
    if (!(what)) {                                                    \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
      abort();                                                        \
    }                                                                 \
  } while (false)

// Threads that carry out what they are given, in turn.
class Pool {
 public:
  explicit Pool(int size) {
    for (int i = 0; i < size; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Do(std::function<void()> what) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(what));
    }
    changed_.notify_one();
  }

 private:
  void Work() {
    while (true) {
      std::function<void()> next;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return over_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        next = std::move(waiting_.front());
        waiting_.pop_front();
      }
      next();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

const std::string kDevices[] = {"/device:CPU:0", "/device:CPU:1"};

// What is written of the i-th node of a step follows from i alone.
std::string NameOf(int i) { return "node_" + std::string(i % 97, 'x') + std::to_string(i); }
std::string OpOf(int i) { return i % 1000 == 999 ? std::string(30000, 'o') : "Op" + std::to_string(i % 7); }
int OutputsOf(int i) { return i % 4; }

// A constant puts nothing out itself: its description comes with the graph.
constexpr int kConstant = 4;
std::shared_ptr<stepscope::Constants> Graph() {
  return std::make_shared<stepscope::Constants>(
      stepscope::Constants{{NameOf(kConstant), {1, 4 * kConstant, 0}}});
}
bool Fails(int i) { return i % 11 == 3; }

void Finish(Record* record, int i) {
  record->End();
  if (record->log->outputs) {
    for (int slot = 0; slot < OutputsOf(i); ++slot) {
      int64_t* dims = record->AddOutput(slot, 1, 4 * i, slot);
      for (int axis = 0; axis < slot; ++axis) dims[axis] = i;
    }
  }
  record->failed = Fails(i);
  record->Finish(kDevices[i % 2]);
}

// A step of `nodes` nodes; it lets go of the log when all of them are over.
void Step(TestLog* log, Pool* pool, int nodes) {
  auto left = std::make_shared<std::atomic<int>>(nodes);
  const auto over = [log, left] {
    if (left->fetch_sub(1) == 1) log->Unref();
  };
  for (int i = 0; i < nodes; ++i) {
    Record* record = log->NewRecord(NameOf(i), OpOf(i));
    if (record == nullptr) {
      over();
      continue;
    }
    record->scheduled_ns = i;
    record->Begin();
    if (i % 2) {
      Finish(record, i);
      over();
    } else {
      pool->Do([record, i, over] {
        Finish(record, i);
        over();
      });
    }
  }
}

// What was read, taken apart as `LoggedNodes` of node_log.py does; gives the number of records.
int64_t Check(const std::vector<char>& data, bool outputs, bool all_over) {
  const char* at = data.data();
  const auto column = [&at](auto example, int64_t count) {
    std::vector<decltype(example)> found(count);
    if (count) memcpy(found.data(), at, count * sizeof(example));
    at += count * sizeof(example);
    return found;
  };
  const auto sizes = column(int64_t{}, 7);
  const int64_t count = sizes[0];
  const auto scheduled = column(int64_t{}, count), start = column(int64_t{}, count);
  const auto end = column(int64_t{}, count), described = column(int64_t{}, sizes[1]);
  column(int64_t{}, sizes[2]);
  column(int32_t{}, count);
  const auto device = column(int32_t{}, count), state = column(int32_t{}, count);
  const auto name_size = column(int32_t{}, count), op_size = column(int32_t{}, count);
  std::unordered_map<int64_t, int> outputs_of;
  for (size_t i = 0; i < described.size();) {
    const int64_t row = described[i], slot = described[i + 1], rank = described[i + 4];
    CHECK(described[i + 3] == 4 * scheduled[row] && rank == slot);
    for (int64_t axis = 0; axis < rank; ++axis) CHECK(described[i + 5 + axis] == scheduled[row]);
    i += 5 + rank;
    ++outputs_of[row];
  }
  const char* text = at;
  const std::string table(at + sizes[3], sizes[4]);
  for (int64_t i = 0; i < count; ++i) {
    const int node = static_cast<int>(scheduled[i]);
    CHECK(std::string(text, name_size[i]) == NameOf(node));
    CHECK(std::string(text + name_size[i], op_size[i]) == OpOf(node));
    text += name_size[i] + op_size[i];
    const bool over = state[i] == stepscope::kDone || state[i] == stepscope::kFailed;
    CHECK(over || !all_over);
    CHECK(start[i] != 0);
    if (!over) continue;
    CHECK((state[i] == stepscope::kFailed) == Fails(node));
    CHECK(outputs_of[i] == (outputs ? OutputsOf(node) + (node == kConstant) : 0));
    CHECK(end[i] != 0 && device[i] >= 0 && device[i] < sizes[5]);
    size_t line = 0;
    for (int n = 0; n < device[i]; ++n) line = table.find('\n', line) + 1;
    CHECK(table.compare(line, kDevices[node % 2].size(), kDevices[node % 2]) == 0);
  }
  CHECK(text == at + sizes[3] && text + sizes[4] == data.data() + data.size());
  return count;
}

// A log from its beginning to its end, as one traced run has it.
void Round(int round, Pool* writers, Pool* kernels) {
  constexpr int kSteps = 3, kNodes = 1200;
  const bool outputs = round % 2;
  auto* log = new TestLog(outputs);
  log->Enter();
  CHECK(TestLog::Asked() == log);
  log->Ref();  // for the reader of the end
  for (int step = 0; step < kSteps; ++step) {
    log->Started(step, Graph());
    writers->Do([log, kernels] { Step(log, kernels, kNodes); });
  }
  if (round % 3 == 0) {  // a nested run, on the same thread
    auto* inner = new TestLog(outputs);
    inner->Enter();
    inner->Started(0, Graph());
    Step(inner, kernels, 50);
    inner->Leave();
    Check(inner->Read(), outputs, false);
    inner->Unref();
  }
  CHECK(TestLog::Asked() == log);
  Check(log->Read(), outputs, false);
  log->Leave();
  if (round % 4) Check(log->Read(), outputs, false);
  log->Unref();  // abandoned: the steps may still be writing
  if (round % 5 == 0) {
    int64_t known = 0;
    while (known < kSteps * kNodes) {
      const int64_t now = Check(log->Read(), outputs, false);
      CHECK(now >= known);
      known = now;
      std::this_thread::yield();
    }
  }
  log->Unref();
}

// Once all is over, what is read is complete.
void Complete() {
  auto* log = new TestLog(true);
  log->Started(0, Graph());
  {
    Pool kernels(1);
    Step(log, &kernels, 1000);
  }
  CHECK(Check(log->Read(), true, true) == 1000);
  log->Unref();
}

// A full log keeps what began before, whole, and counts the rest.
void Full() {
  auto* log = new TestLog(true, 3);
  for (int step = 0; step < 2; ++step) {
    log->Started(step, Graph());
    Pool kernels(1);
    Step(log, &kernels, 1000);
  }
  const std::vector<char> data = log->Read();
  const int64_t kept = Check(data, true, true);
  int64_t dropped;
  memcpy(&dropped, data.data() + 6 * sizeof dropped, sizeof dropped);
  CHECK(kept >= 100 && kept <= 3 * stepscope::kRecords && kept + dropped == 2000);
  log->Unref();
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? atoi(arguments[1]) : 30;
  const int threads = count > 2 ? atoi(arguments[2]) : 4;
  {
    Pool kernels(threads), writers(threads);
    std::vector<std::thread> programs;
    for (int program = 0; program < 3; ++program) {
      programs.emplace_back([=, &writers, &kernels] {
        for (int round = 0; round < rounds; ++round) Round(round + program, &writers, &kernels);
      });
    }
    for (std::thread& program : programs) program.join();
  }
  Complete();
  Full();
  printf("ok\n");
  return 0;
}
