// The log of what the nodes of a run did: memory that many threads write to and one reads. It knows
// nothing of TensorFlow; `node_log.cc` has an executor write to it, and tests/native/ has threads do
// so under the sanitizers.
//
// Guarantees.
// - A record is written by one thread at a time: by the one that began the node and, once that has
//   handed it on (an op that ends elsewhere), by the other. The log takes no lock for it.
// - A log may be read at any time, from any thread, also while it is written to: what `state` says
//   of a record when it is read has been written in full.
// - It lives until its reader and every step that writes to it have let go of it (`Unref`).
// - Names are copied when a node begins: a log needs nothing of a graph that may be gone by then.
// - A record costs some hundred bytes, taken from memory that its thread alone writes to and that
//   the next log uses again: fresh pages cost as much as the rest.
// - It is bounded (`kMostChunks`, 0.2 GB, a million nodes), and so are all logs together
//   (`kMostChunksInAll`, 0.8 GB): a node that begins when they are full is counted, not kept. One
//   that began before has room for its outputs.

#ifndef STEPSCOPE_LOG_H_
#define STEPSCOPE_LOG_H_

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
#include <new>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace stepscope {

// -- time: the processor's counter where it runs evenly, else the system's clock ------------------

inline int64_t Read(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

inline bool CounterIsEven() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
#else
  return false;
#endif
}

inline const bool even_counter = CounterIsEven();

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

inline const Moment loaded(CLOCK_MONOTONIC);

inline double NsPerTick() {
  if (!even_counter) return 1.0;
  const Moment now(CLOCK_MONOTONIC);
  return static_cast<double>(now.ns - loaded.ns) / static_cast<double>(now.ticks - loaded.ticks);
}

// -- the log --------------------------------------------------------------------------------------

constexpr int kRecords = 256;
constexpr size_t kBytes = 24576;
constexpr int64_t kMostChunks = int64_t{1} << 12;
constexpr int64_t kMostChunksInAll = int64_t{1} << 14;
constexpr size_t kMostFree = 64;

enum State : int32_t { kWaiting = 0, kStarted = 1, kEnded = 2, kDone = 3, kFailed = 4 };

// Dtype, bytes, rank and shape of a graph's constants: an executor hands them on without telling.
using Constants = std::unordered_map<std::string, std::vector<int64_t>>;

struct Output {
  const Output* next;
  int64_t bytes;
  int32_t slot, dtype, rank;

  // Behind it, in memory that was taken for both.
  int64_t* dims() { return reinterpret_cast<int64_t*>(this + 1); }
  const int64_t* dims() const { return reinterpret_cast<const int64_t*>(this + 1); }
};

inline const std::string* Interned(const std::string& text) {
  static std::mutex* mutex = new std::mutex;
  static auto* known = new std::unordered_set<std::string>;
  std::lock_guard<std::mutex> lock(*mutex);
  return &*known->insert(text).first;
}

inline std::atomic<uint64_t> log_numbers{1};
inline std::atomic<uint64_t> thread_numbers{1};
inline std::atomic<int64_t> chunks_in_use{0};  // of all logs

template <typename Record>
class Log;

// What a log keeps of one execution. A `Record` is one of these and whatever its writer needs.
template <typename Record>
class Entry {
 public:
  void Begin() {
    start = Ticks();
    state.store(kStarted, std::memory_order_release);
  }
  void End() {
    end = Ticks();
    state.store(kEnded, std::memory_order_release);
  }
  // Nothing is written to it after this. `device` stays where it is while the step is under way.
  void Finish(const std::string& device);
  // Where its shape is to be written, before it is finished.
  int64_t* AddOutput(int slot, int dtype, int64_t bytes, int rank);

  Log<Record>* log;
  int64_t scheduled_ns, start, end;
  const char* text;  // the node's name and its op type after it
  uint32_t name_size, op_size;
  const std::string* device;
  const Output* outputs;  // the last one first
  bool failed;
  std::atomic<int32_t> state;
};

// `Record` is an `Entry<Record>` with a static `ThreadHandle()`: the number by which others know the
// calling thread.
template <typename Record>
class Log {
 public:
  explicit Log(bool outputs, int64_t most_chunks = kMostChunks)
      : outputs(outputs),
        most_chunks(most_chunks),
        number(log_numbers.fetch_add(1)),
        began(CLOCK_REALTIME) {}

  // The log that steps which this thread starts are to be written to; null where none is asked for.
  static Log* Asked() { return here_.asked; }

  // Ask for it, until `Leave` on the same thread.
  void Enter() {
    outer_ = here_.asked;
    here_.asked = this;
  }
  void Leave() { here_.asked = outer_; }

  // A record of a node that is about to run; null, and counted, where the log is full.
  Record* NewRecord(const std::string& name, const std::string& op) {
    const size_t size = name.size() + op.size();
    ThisThread& here = here_;
    const bool full = !HasRoomFor(1);
    // Looking for this thread's chunk takes a lock: not for a node that is not kept anyway.
    Chunk* chunk = here.log == number ? here.chunk : full ? nullptr : Find(here);
    int place = chunk == nullptr ? kRecords : chunk->used.load(std::memory_order_relaxed);
    const bool needs_chunk = place == kRecords || !HasRoom(chunk, size);
    // Outputs may have taken chunks beyond the last: those are not for records.
    if (full && (needs_chunk || !HasRoomFor(0))) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    if (needs_chunk) {
      chunk = NewChunk(here);
      place = 0;
    }
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

  // A step that writes to it has begun; `Unref` when it is over.
  void Started(int64_t step, std::shared_ptr<const Constants> constants) {
    Ref();
    std::lock_guard<std::mutex> lock(mutex_);
    steps_.push_back(step);
    if (outputs) constants_.push_back(std::move(constants));
  }

  void Ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    if (references_.fetch_sub(1) == 1) delete this;
  }

  std::vector<char> Read();

  const bool outputs;
  const int64_t most_chunks;
  const uint64_t number;
  const Moment began;

 protected:
  virtual ~Log() {
    chunks_in_use.fetch_sub(made_.load(), std::memory_order_relaxed);
    Free& free = FreeChunks();
    std::lock_guard<std::mutex> lock(free.mutex);
    for (Chunk* chunk : chunks_) {
      if (free.chunks.size() < kMostFree) {
        free.chunks.push_back(chunk);
      } else {
        delete chunk;
      }
    }
  }

 private:
  friend class Entry<Record>;

  // Memory that one thread writes one log's records to.
  struct Chunk {
    uint64_t writer;  // its number among this process's threads: the system's are given again
    int32_t thread;
    uint32_t thread_handle;
    char thread_name[16];
    size_t bytes_used;
    std::atomic<int> used;
    Record records[kRecords];
    alignas(8) char bytes[kBytes];
  };

  struct ThisThread {
    Log* asked = nullptr;
    Chunk* chunk = nullptr;  // the one last written to, and its log
    uint64_t log = 0;
    uint64_t number = 0;
    int32_t id = 0;
    uint32_t handle = 0;
    char name[16] = "";
    const std::string* device_at = nullptr;  // where that log's last device has its name, and a copy
    const std::string* device = nullptr;
  };
  static inline thread_local ThisThread here_;

  // Never destroyed: an abandoned run may still be under way when the process ends.
  struct Free {
    std::mutex mutex;
    std::vector<Chunk*> chunks;
  };
  static Free& FreeChunks() {
    static Free* free = new Free;
    return *free;
  }

  static bool HasRoom(const Chunk* chunk, size_t size) {
    return size > kBytes || chunk->bytes_used + size + 8 <= kBytes;
  }

  bool HasRoomFor(int64_t more) const {
    return made_.load(std::memory_order_relaxed) + more <= most_chunks &&
           chunks_in_use.load(std::memory_order_relaxed) + more <= kMostChunksInAll;
  }

  // Bytes of this thread's, aligned to 8, that live as long as the log.
  char* Take(ThisThread& here, size_t size) {
    size = (size + 7) & ~size_t{7};
    if (size > kBytes) {
      std::lock_guard<std::mutex> lock(mutex_);
      large_.push_back(std::make_unique<char[]>(size));
      return large_.back().get();
    }
    Chunk* chunk = Current(here);
    // A full log has room for what nodes put out that began before it was.
    if (chunk == nullptr || chunk->bytes_used + size > kBytes) chunk = NewChunk(here);
    char* found = chunk->bytes + chunk->bytes_used;
    chunk->bytes_used += size;
    return found;
  }

  // This thread's chunk; null where it has not written to this log.
  Chunk* Current(ThisThread& here) { return here.log == number ? here.chunk : Find(here); }

  // The chunk that this thread last wrote to before it wrote to another log.
  Chunk* Find(ThisThread& here) {
    if (here.number == 0) {
      here.number = thread_numbers.fetch_add(1);
      here.id = static_cast<int32_t>(syscall(SYS_gettid));
      here.handle = Record::ThreadHandle();
      pthread_getname_np(pthread_self(), here.name, sizeof here.name);
    }
    here.device_at = nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
      if ((*chunk)->writer != here.number) continue;
      here.log = number;
      here.chunk = *chunk;
      return *chunk;
    }
    return nullptr;
  }

  Chunk* NewChunk(ThisThread& here) {
    Chunk* chunk = nullptr;
    {
      Free& free = FreeChunks();
      std::lock_guard<std::mutex> lock(free.mutex);
      if (!free.chunks.empty()) {
        chunk = free.chunks.back();
        free.chunks.pop_back();
      }
    }
    if (chunk == nullptr) chunk = new Chunk;
    chunk->writer = here.number;
    chunk->thread = here.id;
    chunk->thread_handle = here.handle;
    memcpy(chunk->thread_name, here.name, sizeof here.name);
    chunk->bytes_used = 0;
    chunk->used.store(0, std::memory_order_relaxed);
    here.log = number;
    here.chunk = chunk;
    made_.fetch_add(1, std::memory_order_relaxed);
    chunks_in_use.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard<std::mutex> lock(mutex_);
    chunks_.push_back(chunk);
    return chunk;
  }

  Log* outer_ = nullptr;
  std::atomic<int> references_{1};
  std::atomic<int64_t> made_{0}, dropped_{0};
  std::mutex mutex_;
  std::vector<Chunk*> chunks_;
  std::vector<std::unique_ptr<char[]>> large_;
  std::vector<int64_t> steps_;
  std::vector<std::shared_ptr<const Constants>> constants_;
};

template <typename Record>
void Entry<Record>::Finish(const std::string& name) {
  auto& here = Log<Record>::here_;
  if (here.log != log->number) {
    device = Interned(name);  // an op that ends on another thread than it began on
  } else {
    if (here.device_at != &name) {
      here.device = Interned(name);
      here.device_at = &name;
    }
    device = here.device;
  }
  state.store(failed ? kFailed : kDone, std::memory_order_release);
}

template <typename Record>
int64_t* Entry<Record>::AddOutput(int slot, int dtype, int64_t bytes, int rank) {
  char* place = log->Take(Log<Record>::here_, sizeof(Output) + rank * sizeof(int64_t));
  Output* output = new (place) Output{outputs, bytes, slot, dtype, rank};
  outputs = output;
  return output->dims();
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
template <typename Record>
std::vector<char> Log<Record>::Read() {
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
        described.insert(described.end(), output->dims(), output->dims() + output->rank);
      }
    }
  }
  for (const auto& known : threads) {
    table += std::to_string(known.first) + " " + known.second + "\n";
  }
  const std::vector<int64_t> sizes = {
      static_cast<int64_t>(start.size()), static_cast<int64_t>(described.size()),
      static_cast<int64_t>(steps_.size()), static_cast<int64_t>(texts.size()),
      static_cast<int64_t>(table.size()), static_cast<int64_t>(devices.size()), dropped_.load()};
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

}  // namespace stepscope

#endif  // STEPSCOPE_LOG_H_
