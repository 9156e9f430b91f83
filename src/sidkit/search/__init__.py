"""OneSearch: shops and their logs, and a model that answers queries with semantic IDs.

A shop:
    shop/            its layout: items, log, users, counters, queries and test pairs
    read/            shops from data that others released or exported
    grammar/         the words and products of the simulated shop
    simulate/        a simulated shop with a log, drawn from a seed
    split            which records are the test part, and the sample of test pairs

Queries and items in one space:
    pairs            which queries and items a log pairs
    align, align_training, align_job   projections, their training, and the same for a shop
    dictionary, attribute_words, keywords, words   keywords of a catalogue, and vectors that contain them
    prepare          embed, align, fit and encode in one call

A model:
    plan             the settings of a training
    corpus, context  a shop with SIDs as arrays; what is known of a user before a query
    templates/, tokens, examples, stages   what the model reads and writes in each of three stages
    bart/            the network, its beams and, in bart/triton/, its kernels
    training, model/ the training loop; the trained model and its folder

Results:
    ranking, top     from generated SIDs to a list of items
    baselines, bm25  BM25, nearest neighbours and counting
    metrics, evaluation   HitRate and MRR of all of them, and how certain a difference is
"""
