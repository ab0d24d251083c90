// An executor type of our own: TensorFlow's default executor, which notes what its nodes do while
// the thread that starts a step has asked for it.
//
// Guarantees.
// - A step that nobody asked to log is run by the default executor as it is, and so is one that
//   TensorFlow itself collects statistics of.
// - A log belongs to one run. It may be read at any time, also while the run is under way, and it
//   lives until both its reader and the last step that writes to it are done with it.
// - Names are copied when a node begins: a log needs nothing of a graph that may be gone by then.
// - A node costs two readings of the clock and some hundred bytes, taken from memory that its
//   thread alone writes to and that the next log uses again: fresh pages cost as much as the rest.

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/executor_factory.h"
#include "tensorflow/core/common_runtime/step_stats_collector.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"

namespace {

// -- time: the processor's counter where it runs evenly, else the system's clock ------------------

int64_t Read(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

bool CounterIsEven() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
#else
  return false;
#endif
}

const bool even_counter = CounterIsEven();

inline int64_t Ticks() {
#if defined(__x86_64__)
  if (even_counter) return static_cast<int64_t>(__rdtsc());
#endif
  return Read(CLOCK_REALTIME);
}

// A moment by both clocks; of some tries the one that was not interrupted.
struct Moment {
  explicit Moment(clockid_t clock) {
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; ++i) {
      const int64_t before = Ticks(), now = Read(clock), after = Ticks();
      if (after - before >= best) continue;
      best = after - before;
      ticks = before + best / 2;
      ns = now;
    }
  }
  int64_t ticks = 0, ns = 0;
};

const Moment loaded(CLOCK_MONOTONIC);

double NsPerTick() {
  if (!even_counter) return 1.0;
  const Moment now(CLOCK_MONOTONIC);
  return static_cast<double>(now.ns - loaded.ns) / static_cast<double>(now.ticks - loaded.ticks);
}

// -- the log --------------------------------------------------------------------------------------

constexpr int kRecords = 256;
constexpr size_t kBytes = 24576;
// What one log, and all of them together, may take; a million and four million nodes at the most.
constexpr int64_t kMostChunks = int64_t{1} << 12;
constexpr int64_t kMostChunksInAll = int64_t{1} << 14;

enum State : int32_t { kWaiting = 0, kStarted = 1, kEnded = 2, kDone = 3, kFailed = 4 };

class NodeLog;

// Dtype, bytes, rank and shape of a graph's constants: an executor hands them on without telling.
using Constants = std::unordered_map<std::string, std::vector<int64_t>>;

struct Output {
  const Output* next;
  int64_t bytes;
  int32_t slot, dtype, rank;
  int64_t dims[1];
};

class Record final : public tensorflow::NodeExecStatsInterface {
 public:
  void Done(const std::string& name) override;
  void RecordExecutorStarted() override {}
  void RecordComputeStarted() override {
    start = Ticks();
    state.store(kStarted, std::memory_order_release);
  }
  void RecordComputeEnded() override {
    end = Ticks();
    state.store(kEnded, std::memory_order_release);
  }
  void RecordExecutorEnded() override {}
  bool TrackAllocations() const override { return false; }
  void SetMemory(tensorflow::OpKernelContext* context) override {
    failed = !context->status().ok();
  }
  void SetOutput(int slot, const tensorflow::Tensor* tensor) override;
  void SetScheduled(int64_t nanos) override { scheduled_ns = nanos; }

  NodeLog* log;
  int64_t scheduled_ns, start, end;
  const char* text;  // the node's name and its op type after it
  uint32_t name_size, op_size;
  const std::string* device;
  const Output* outputs;  // the last one first
  bool failed;
  std::atomic<int32_t> state;
};

// Memory that one thread writes one log's records to.
struct Chunk {
  int32_t thread;
  uint32_t thread_handle;  // by which TensorFlow's profiler knows a thread
  char thread_name[16];
  size_t bytes_used;
  std::atomic<int> used;
  Record records[kRecords];
  alignas(8) char bytes[kBytes];
};

// Never destroyed: an abandoned run may still be under way when the process ends.
std::mutex& free_mutex = *new std::mutex;
std::vector<Chunk*>& free_chunks = *new std::vector<Chunk*>;
constexpr size_t kMostFree = 64;
std::atomic<int64_t> chunks_in_use{0};

struct ThisThread {
  NodeLog* asked = nullptr;  // the log that steps started here are to be written to
  Chunk* chunk = nullptr;    // the one last written to, and its log
  uint64_t log = 0;
  int32_t id = 0;
  uint32_t handle = 0;
  char name[16] = "";
  const std::string* device_at = nullptr;  // where that log's last device has its name, and a copy
  const std::string* device = nullptr;
};
thread_local ThisThread this_thread;

const std::string* Interned(const std::string& text) {
  static std::mutex* mutex = new std::mutex;
  static auto* known = new std::unordered_set<std::string>;
  std::lock_guard<std::mutex> lock(*mutex);
  return &*known->insert(text).first;
}

std::atomic<uint64_t> log_numbers{1};

class NodeLog final : public tensorflow::StepStatsCollectorInterface {
 public:
  explicit NodeLog(bool outputs)
      : outputs(outputs), number(log_numbers.fetch_add(1)), began(CLOCK_REALTIME) {}

  tensorflow::NodeExecStatsInterface* CreateNodeExecStats(
      const tensorflow::NodeDef* node) override {
    const std::string& name = node->name();
    const std::string& op = node->op();
    const size_t size = name.size() + op.size();
    ThisThread& here = this_thread;
    const bool full = Full();
    Chunk* chunk = here.log == number ? here.chunk : full ? nullptr : Find(here);
    if (chunk == nullptr || chunk->used.load(std::memory_order_relaxed) == kRecords ||
        Lacks(chunk, size)) {
      if (full) {
        dropped.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
      }
      chunk = NewChunk(here);
    }
    const int place = chunk->used.load(std::memory_order_relaxed);
    Record* record = &chunk->records[place];
    record->log = this;
    record->scheduled_ns = record->start = record->end = 0;
    char* text = Take(here, size);
    memcpy(text, name.data(), name.size());
    memcpy(text + name.size(), op.data(), op.size());
    record->text = text;
    record->name_size = name.size();
    record->op_size = op.size();
    record->device = nullptr;
    record->outputs = nullptr;
    record->failed = false;
    record->state.store(kWaiting, std::memory_order_relaxed);
    chunk->used.store(place + 1, std::memory_order_release);
    return record;
  }

  std::string ReportAllocsOnResourceExhausted(absl::string_view) override { return ""; }

  Output* NewOutput(ThisThread& here, int slot, tensorflow::DataType dtype, int rank) {
    char* place = Take(here, sizeof(Output) + rank * sizeof(int64_t));
    Output* output = reinterpret_cast<Output*>(place);
    output->next = nullptr;
    output->slot = slot;
    output->dtype = dtype;
    output->rank = rank;
    return output;
  }

  // Bytes of this thread's, aligned to 8, that live as long as the log.
  char* Take(ThisThread& here, size_t size) {
    size = (size + 7) & ~size_t{7};
    if (size > kBytes) {
      std::lock_guard<std::mutex> lock(mutex_);
      large_.push_back(std::make_unique<char[]>(size));
      return large_.back().get();
    }
    Chunk* chunk = Place(here, size);
    char* found = chunk->bytes + chunk->bytes_used;
    chunk->bytes_used += size;
    return found;
  }

  void Started(int64_t step, std::shared_ptr<const Constants> constants) {
    Ref();
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.push_back(step);
    if (outputs) constants_.push_back(std::move(constants));
  }

  void Ref() { references_.fetch_add(1); }
  void Unref() {
    if (references_.fetch_sub(1) == 1) delete this;
  }

  std::vector<char> Read();

  const bool outputs;
  const uint64_t number;
  const Moment began;
  NodeLog* outer = nullptr;
  std::atomic<int64_t> dropped{0};

 private:
  ~NodeLog() override {
    chunks_in_use.fetch_sub(count_.load());
    std::lock_guard<std::mutex> lock(free_mutex);
    for (Chunk* chunk : chunks_) {
      if (free_chunks.size() < kMostFree) {
        free_chunks.push_back(chunk);
      } else {
        delete chunk;
      }
    }
  }

  // This thread's chunk, with room for that many bytes.
  Chunk* Place(ThisThread& here, size_t size) {
    Chunk* chunk = here.chunk;
    if (here.log != number) chunk = Find(here);
    if (chunk == nullptr || Lacks(chunk, size)) chunk = NewChunk(here);
    return chunk;
  }

  static bool Lacks(const Chunk* chunk, size_t size) {
    return chunk->bytes_used + size + 8 > kBytes && size <= kBytes;
  }

  // Whether no more nodes are noted. What those that were noted put out still is.
  bool Full() const {
    return count_.load(std::memory_order_relaxed) >= kMostChunks ||
           chunks_in_use.load(std::memory_order_relaxed) >= kMostChunksInAll;
  }

  // The chunk that this thread last wrote to before it wrote to another log.
  Chunk* Find(ThisThread& here) {
    if (here.id == 0) {
      here.id = static_cast<int32_t>(syscall(SYS_gettid));
      here.handle = static_cast<uint32_t>(tensorflow::Env::Default()->GetCurrentThreadId());
      pthread_getname_np(pthread_self(), here.name, sizeof here.name);
    }
    here.device_at = nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
      if ((*chunk)->thread != here.id) continue;
      here.log = number;
      here.chunk = *chunk;
      return *chunk;
    }
    return nullptr;
  }

  Chunk* NewChunk(ThisThread& here) {
    Chunk* chunk = nullptr;
    {
      std::lock_guard<std::mutex> lock(free_mutex);
      if (!free_chunks.empty()) {
        chunk = free_chunks.back();
        free_chunks.pop_back();
      }
    }
    if (chunk == nullptr) chunk = new Chunk;
    count_.fetch_add(1, std::memory_order_relaxed);
    chunks_in_use.fetch_add(1, std::memory_order_relaxed);
    chunk->thread = here.id;
    chunk->thread_handle = here.handle;
    memcpy(chunk->thread_name, here.name, sizeof here.name);
    chunk->bytes_used = 0;
    chunk->used.store(0);
    here.log = number;
    here.chunk = chunk;
    std::lock_guard<std::mutex> lock(mutex_);
    chunks_.push_back(chunk);
    return chunk;
  }

  std::atomic<int> references_{1};
  std::atomic<int64_t> count_{0};
  std::mutex mutex_;
  std::vector<Chunk*> chunks_;
  std::vector<std::unique_ptr<char[]>> large_;
  std::vector<int64_t> steps_;
  std::vector<std::shared_ptr<const Constants>> constants_;
};

void Record::Done(const std::string& name) {
  ThisThread& here = this_thread;
  if (here.log != log->number) {
    device = Interned(name);  // an op that ends on another thread than it began on
  } else {
    // While a log's step is under way its devices stay where they are.
    if (here.device_at != &name) {
      here.device = Interned(name);
      here.device_at = &name;
    }
    device = here.device;
  }
  state.store(failed ? kFailed : kDone, std::memory_order_release);
}

void Record::SetOutput(int slot, const tensorflow::Tensor* tensor) {
  if (!log->outputs) return;
  const int rank = tensor->dims();
  Output* output = log->NewOutput(this_thread, slot, tensor->dtype(), rank);
  output->next = outputs;
  output->bytes = tensor->NumElements() * tensorflow::DataTypeSize(tensor->dtype());
  for (int i = 0; i < rank; ++i) output->dims[i] = tensor->dim_size(i);
  outputs = output;
}

// -- reading --------------------------------------------------------------------------------------

template <typename T>
void Append(std::vector<char>& to, const std::vector<T>& from) {
  const char* begin = reinterpret_cast<const char*>(from.data());
  to.insert(to.end(), begin, begin + from.size() * sizeof(T));
}

// Seven sizes; columns of 64 bits: scheduled, start, end, outputs, steps; columns of 32 bits: thread,
// device, state, sizes of name and op type; then the names with their op types, and a line for each
// device and each thread.
std::vector<char> NodeLog::Read() {
  std::lock_guard<std::mutex> lock(mutex_);
  const double scale = NsPerTick();
  const auto epoch = [&](int64_t ticks) -> int64_t {
    if (ticks == 0 || !even_counter) return ticks;
    return began.ns + static_cast<int64_t>((ticks - began.ticks) * scale);
  };
  std::vector<int64_t> scheduled, start, end, described;
  std::vector<int32_t> thread, device, state, name_size, op_size;
  std::string texts, table;
  std::unordered_map<const std::string*, int32_t> devices;
  std::unordered_map<int32_t, std::string> threads;
  for (Chunk* chunk : chunks_) {
    const int used = chunk->used.load(std::memory_order_acquire);
    threads[chunk->thread] = std::to_string(chunk->thread_handle) + " " + chunk->thread_name;
    for (int i = 0; i < used; ++i) {
      const Record& record = chunk->records[i];
      const int32_t now = record.state.load(std::memory_order_acquire);
      if (now == kWaiting) continue;
      const bool over = now == kDone || now == kFailed;
      const int64_t row = start.size();
      scheduled.push_back(record.scheduled_ns);
      start.push_back(epoch(record.start));
      end.push_back(now == kStarted ? 0 : epoch(record.end));
      thread.push_back(chunk->thread);
      state.push_back(now);
      name_size.push_back(record.name_size);
      op_size.push_back(record.op_size);
      texts.append(record.text, record.name_size + record.op_size);
      int32_t place = -1;
      if (over) {
        const auto known = devices.emplace(record.device, devices.size());
        place = known.first->second;
        if (known.second) table += *record.device + "\n";
      }
      device.push_back(place);
      if (over && record.outputs == nullptr && !constants_.empty()) {
        const std::string name(record.text, record.name_size);
        for (const auto& known : constants_) {
          const auto constant = known->find(name);
          if (constant == known->end()) continue;
          described.insert(described.end(), {row, 0});
          described.insert(described.end(), constant->second.begin(), constant->second.end());
          break;
        }
      }
      for (const Output* output = over ? record.outputs : nullptr; output != nullptr;
           output = output->next) {
        for (int64_t value : {row, int64_t{output->slot}, int64_t{output->dtype}, output->bytes,
                              int64_t{output->rank}}) {
          described.push_back(value);
        }
        described.insert(described.end(), output->dims, output->dims + output->rank);
      }
    }
  }
  for (const auto& known : threads) {
    table += std::to_string(known.first) + " " + known.second + "\n";
  }
  const std::vector<int64_t> sizes = {
      static_cast<int64_t>(start.size()), static_cast<int64_t>(described.size()),
      static_cast<int64_t>(steps_.size()), static_cast<int64_t>(texts.size()),
      static_cast<int64_t>(table.size()), static_cast<int64_t>(devices.size()), dropped.load()};
  std::vector<char> found;
  Append(found, sizes);
  for (const auto* column : {&scheduled, &start, &end, &described, &steps_}) {
    Append(found, *column);
  }
  for (const auto* column : {&thread, &device, &state, &name_size, &op_size}) {
    Append(found, *column);
  }
  found.insert(found.end(), texts.begin(), texts.end());
  found.insert(found.end(), table.begin(), table.end());
  return found;
}

// -- the executor ---------------------------------------------------------------------------------

class LoggingExecutor final : public tensorflow::Executor {
 public:
  LoggingExecutor(std::unique_ptr<tensorflow::Executor> inner, const tensorflow::Graph& graph)
      : inner_(std::move(inner)) {
    auto constants = std::make_shared<Constants>();
    for (const tensorflow::Node* node : graph.op_nodes()) {
      if (node->type_string() != "Const") continue;
      const auto value = node->def().attr().find("value");
      if (value == node->def().attr().end()) continue;
      const auto& tensor = value->second.tensor();
      std::vector<int64_t> described = {tensor.dtype(), tensorflow::DataTypeSize(tensor.dtype()),
                                        tensor.tensor_shape().dim_size()};
      for (const auto& axis : tensor.tensor_shape().dim()) {
        described.push_back(axis.size());
        described[1] *= axis.size();
      }
      constants->emplace(node->name(), std::move(described));
    }
    constants_ = std::move(constants);
  }

 private:
  void RunAsyncInternal(const Args& args, DoneCallback done) override {
    NodeLog* log = this_thread.asked;
    if (log == nullptr || args.stats_collector != nullptr) {
      inner_->RunAsync(args, std::move(done));
      return;
    }
    Args ours = args;
    ours.stats_collector = log;
    log->Started(args.step_id, constants_);
    inner_->RunAsync(ours, [log, done = std::move(done)](const absl::Status& status) {
      done(status);
      log->Unref();
    });
  }

  std::unique_ptr<tensorflow::Executor> inner_;
  std::shared_ptr<const Constants> constants_;
};

class Factory final : public tensorflow::ExecutorFactory {
 public:
  absl::Status NewExecutor(const tensorflow::LocalExecutorParams& params,
                           const tensorflow::Graph& graph,
                           std::unique_ptr<tensorflow::Executor>* out_executor) override {
    std::unique_ptr<tensorflow::Executor> inner;
    absl::Status status = tensorflow::NewExecutor("DEFAULT", params, graph, &inner);
    if (status.ok()) *out_executor = std::make_unique<LoggingExecutor>(std::move(inner), graph);
    return status;
  }
};

}  // namespace

extern "C" {

// Once per process: whether there was none of that type.
int stepscope_register(const char* executor_type) {
  tensorflow::ExecutorFactory* known = nullptr;
  if (tensorflow::ExecutorFactory::GetFactory(executor_type, &known).ok()) return 0;
  tensorflow::ExecutorFactory::Register(executor_type, new Factory);
  return 1;
}

// Log the steps that this thread starts, until it leaves.
void* stepscope_enter(int outputs) {
  NodeLog* log = new NodeLog(outputs != 0);
  log->outer = this_thread.asked;
  this_thread.asked = log;
  return log;
}

// On the thread that entered.
void stepscope_leave(void* log) { this_thread.asked = static_cast<NodeLog*>(log)->outer; }

// What is there by now, to be copied and given back.
const char* stepscope_read(void* log, int64_t* size) {
  auto found = static_cast<NodeLog*>(log)->Read();
  *size = found.size();
  char* copy = new char[found.size()];
  memcpy(copy, found.data(), found.size());
  return copy;
}

void stepscope_give_back(const char* data) { delete[] data; }

// Nobody is going to read it any more.
void stepscope_release(void* log) { static_cast<NodeLog*>(log)->Unref(); }
}
