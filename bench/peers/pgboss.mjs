// pg-boss on PostgreSQL: N jobs in a queue, worked off by one process until the last is written down as completed.
//
// One at a time: so many loops fetch a job, and complete it. Its `work` would give each of them one in half a second.
// In batches: `work` hands a whole batch to one call, and fetches the next at once while batches come back full, both as
// its documents describe for high volumes. Each job has a result of its own. Its row is kept, with its state.

import { createRequire } from 'node:module'

const [jobs, , url, home, batch, loops] = process.argv.slice(2)
const { PgBoss } = createRequire(`${home}/`)('pg-boss')
const count = Number(jobs)
const queue = 'bench'

const boss = new PgBoss({ connectionString: url, max: 20 })
boss.on('error', error => { console.error(error); process.exit(1) })
await boss.start()
await boss.createQueue(queue)
await boss.insert(queue, Array.from({ length: count }, () => ({})))

const start = performance.now()
await (Number(batch) === 1 ? oneByOne(Number(loops)) : inBatches(Number(batch), Number(loops)))
const seconds = (performance.now() - start) / 1000
const { queuedCount, activeCount } = await boss.getQueueStats(queue)
await boss.stop()
if (queuedCount + activeCount > 0) throw new Error(`${queuedCount} are left, ${activeCount} are not completed`)
console.log(JSON.stringify({ beats: count, seconds }))

async function oneByOne (loops) {
  await Promise.all(Array.from({ length: loops }, async () => {
    for (let [job] = await boss.fetch(queue); job; [job] = await boss.fetch(queue)) {
      await boss.complete(queue, job.id)
    }
  }))
}

async function inBatches (batchSize, localConcurrency) {
  const settings = { batchSize, localConcurrency, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5, perJobResults: true }
  let left = count
  await new Promise(resolve => boss.work(queue, settings, async found => {
    left -= found.length
    if (left === 0) resolve()
    return found.map(job => ({ id: job.id, status: 'completed' }))
  }))
  await boss.offWork(queue, { wait: true })
}
