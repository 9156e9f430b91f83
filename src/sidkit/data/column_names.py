"""The names that columns are known by, role by role; the first one that a file has is taken.

They are written in lower case and with underscores: `columns.normal` makes `unixReviewTime` and `unix_review_time` one.
"""

from __future__ import annotations

__all__ = ["NAMES", "OTHER_NAMES"]

_PRODUCTS = """
    asin parent_asin product_id product sku sku_id spu_id goods_id offer_id listing_id article_id movie_id book_id
    work_id track_id song_id artist_id album_id video_id photo_id news_id note_id post_id game_id app_id recipe_id
    beer_id anime_id business_id gmap_id place_id venue_id poi_id hotel_id property_id course_id job_id content_id
    media_id doc_id document_id iid item_no item_number item_code product_code product_number article_number
    article_no article_code part_number isbn isbn10 isbn13 ean ean13 gtin upc
"""
_ROLES = {
    "vectors": "embedding emb vector embeddings vectors",
    "id": f"item_id id pid query_id item ids {_PRODUCTS}",
    "item": f"item_id item pid {_PRODUCTS}",
    "sequence": """
        items item_ids sequence history item_sequence item_seq item_list item_id_list asins product_ids movie_ids
        article_ids skus click_history session_items
    """,
    "user": """
        user user_id session_id session uid reviewer_id customer_id visitor_id member_id account_id client_id person_id
        profile_id viewer_id buyer_id shopper_id player_id household_id household_key device_id cookie_id playlist_id
        reviewer customer visitor
    """,
    "time": """
        timestamp time ts event_time datetime date created_at when unix_review_time unix_timestamp unix_time
        timestamp_ms time_ms time_stamp event_timestamp event_date review_time review_date rating_timestamp rated_at
        click_time visit_time query_time view_time order_time order_date purchase_time purchase_date purchased_at
        transaction_time transaction_date t_dat listened_at played_at date_added time_index
    """,
}
NAMES: dict[str, tuple[str, ...]] = {role: tuple(names.split()) for role, names in _ROLES.items()}

# Columns that are never chosen by their content: texts, and attributes of items and events.
_OTHER = """
    title name text description summary query keyword label brand store seller category categories genre genres color
    colour size style url image rating overall score price quantity count vote helpful verified weight event action
    eventtype type split index rank position reviewtext reviewername username producttitle productname itemname
    itemtitle maintitle maincategory categoryid brandid storeid sellerid shopid orderid transactionid eventid reviewid
    parentid groupid
"""
OTHER_NAMES = frozenset(_OTHER.split())
